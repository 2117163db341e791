"""What stateful bolts have in common."""

from kstorm.topology.component import Maybe
from kstorm.topology.state import KeyValueState


class Stateful:
    """Mixin of bolts whose state survives them (Storm's `IStatefulComponent`)."""

    state: KeyValueState

    def init_state(self, state: KeyValueState) -> Maybe:
        """Called after `prepare` with the recovered state; by default keeps it as `self.state`."""
        self.state = state
        return None

    def pre_prepare(self, checkpoint_id: int) -> Maybe:
        """Called when a checkpoint begins, before the changes of the state are taken; no tuple is executed meanwhile.

        What is put into the state here is part of the checkpoint: write what you gathered in memory. Ids grow with
        each checkpoint of a task, and begin anew with its next life.
        """
        return None

    def pre_commit(self, checkpoint_id: int) -> Maybe:
        """Called when the changes of that checkpoint are durable, before the acks that waited for them leave.

        A process that dies before this has returned replays the tuples; so what is done here may be done twice.
        """
        return None

    def pre_rollback(self) -> Maybe:
        """Called in recovery, before `init_state`, if an earlier life of this task took a checkpoint.

        The state that follows is that of the last checkpoint that became durable. What was executed after it is not in
        the state and comes again: undo here what must not outlive that.
        """
        return None
