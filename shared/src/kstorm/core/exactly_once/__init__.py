"""Bolt tasks with exactly-once processing: an execution takes effect only when it has succeeded.

A tuple whose execution fails is executed again in the same task, after a pause. When its retries
are used up, it becomes a dead letter. The spout replays nothing. Every epoch stores a task's
unfinished tuples, so that its next owner can continue with them.
"""

from kstorm.core.exactly_once.exact_bolt_task import ExactBoltTask
from kstorm.core.exactly_once.undoable_state import UndoableState

__all__ = ["ExactBoltTask", "UndoableState"]
