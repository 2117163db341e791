"""Bolt tasks of a topology that is processed exactly once: an execution takes effect when it has ended well, and not before.

A tuple whose execution fails is executed again here, after a pause, and becomes a dead letter when its retries are used up.
Nothing is replayed from the spout. What a task has not finished is written down with every epoch, so that whoever takes
the task over goes on with it.
"""

from kstorm.core.exact.state import UndoableState
from kstorm.core.exact.task import ExactBoltTask

__all__ = ["ExactBoltTask", "UndoableState"]
