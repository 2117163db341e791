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
        """Called when the changes of that checkpoint are durable, before the acks that waited for
        them leave.

        If the process dies before this returns, the tuples are replayed. So the actions taken here
        may happen twice.
        """
        return None

    def pre_rollback(self) -> Maybe:
        """Called during recovery, before `init_state`, if an earlier run of this task took a
        checkpoint.

        The recovered state is that of the last durable checkpoint. Tuples executed after it are not
        in the state and arrive again. Undo here anything that must not outlive them.
        """
        return None
