"""Frames that came together, while a bolt's process executes them."""

from collections.abc import Sequence

from kstorm.core.bolt_task import BoltTask
from kstorm.core.engine.slot import Record, Slot
from kstorm.core.engine.units import Unit


class Poll:
    """A poll that is being executed, or a part of one: how far each task has come."""

    __slots__ = ("began", "reached", "rest", "unit", "whole")

    def __init__(self, whole: Unit) -> None:
        whole.add()
        self.whole = whole
        """Done when all parts of the poll are."""
        self.unit = Unit(whole.delivered)
        """Done when all that came of this part has arrived."""
        self.reached: dict[Slot[BoltTask], int] = {}
        """By task, the offset behind the last frame that was executed."""
        self.rest: list[tuple[Slot[BoltTask], Sequence[Record]]] = []
        """What is left for another part."""
        self.began = 0.0
        """When its execution began."""
