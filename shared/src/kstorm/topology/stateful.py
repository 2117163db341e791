"""Base of stateful bolts."""

from kstorm.topology.component import Maybe
from kstorm.topology.state import KeyValueState


class Stateful:
    """Mixin for bolts whose state survives restarts (Storm's `IStatefulComponent`)."""

    state: KeyValueState

    def init_state(self, state: KeyValueState) -> Maybe:
        """Called after `prepare` with the recovered state. The default keeps it as `self.state`."""
        self.state = state
        return None

    def pre_prepare(self, checkpoint_id: int) -> Maybe:
        """Called when a checkpoint begins, before the state changes are taken. No tuple is executed
        during the call.

        Changes of the state during the call are part of the checkpoint, so use it to store data
        that you have collected in memory. Ids increase with each checkpoint of a task and restart
        with its next run.
        """
        return None

    def pre_commit(self, checkpoint_id: int) -> Maybe:
        """Called for every checkpoint that releases acks, even if the state has not changed. At
        this time the changes are durable.

        With at least once, the acks are sent after this method returns. If the process dies before
        that, the tuples are replayed, and the actions of this method may happen twice. With exactly
        once, the acks were committed together with the changes, so keep data that must still be
        written in the state.
        """
        return None

    def pre_rollback(self) -> Maybe:
        """Called during recovery, before `init_state`, if an earlier run of this task took a
        checkpoint.

        The recovered state is that of the last durable checkpoint. Tuples executed after it are not
        in the state and arrive again. In this method, undo other effects of those tuples that must
        not remain.
        """
        return None
