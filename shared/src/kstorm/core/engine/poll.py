"""The state of a poll while a bolt process executes its frames."""

from collections.abc import Sequence

from kstorm.core.bolt_task import BoltTask
from kstorm.core.engine.tenure import InputRecord, TaskTenure
from kstorm.core.engine.units import Unit


class Poll:
    """A poll, or a part of one, with the progress of each task."""

    __slots__ = ("began", "reached", "rest", "unit", "whole")

    def __init__(self, whole: Unit) -> None:
        whole.add()
        self.whole = whole
        """Done when all parts of the poll are done."""
        self.unit = Unit(whole.delivered)
        """Done when all results of this part have arrived."""
        self.reached: dict[TaskTenure[BoltTask], int] = {}
        """By task, the offset after the last executed frame."""
        self.rest: list[tuple[TaskTenure[BoltTask], Sequence[InputRecord]]] = []
        """Frames left for another part."""
        self.began = 0.0
        """Start time of its execution."""
