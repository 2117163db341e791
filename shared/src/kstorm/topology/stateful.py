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

        Whatever is put into the state here is part of the checkpoint: use it to write data
        collected in memory. Ids increase with each checkpoint of a task and restart with its next
        run.
        """
        return None

    def pre_commit(self, checkpoint_id: int) -> Maybe:
        """Called for every checkpoint whose acks leave, even if the state has not changed. The
        changes are durable then.

        At least once, the acks leave after this returns. If the process dies before, the tuples are
        replayed, and the actions taken here may happen twice. Exactly once, the acks were committed
        together with the changes. So keep what is still to be written in the state.
        """
        return None

    def pre_rollback(self) -> Maybe:
        """Called during recovery, before `init_state`, if an earlier run of this task took a
        checkpoint.

        The recovered state is that of the last durable checkpoint. Tuples executed after it are not
        in the state and arrive again. Undo here anything that must not outlive them.
        """
        return None
