"""A windowed bolt that records its windows, for the window tests."""

from collections.abc import Sequence
from typing import Any

from kstorm.testing import BoltTester
from kstorm.topology import OutputFieldsDeclarer
from kstorm.topology.context import CLOCK
from kstorm.windows import TupleWindow, WindowedBolt


class Shown(WindowedBolt):
    """Emits each window: all, new and expired values, and its start and end."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("all", "new", "expired", "start", "end")

    def execute(self, window: TupleWindow) -> None:
        """Emits the window."""
        parts = ([tuple["n"] for tuple in part] for part in (window, window.new, window.expired))
        self.collector.emit([*parts, window.start_timestamp, window.end_timestamp])


class Run:
    """Runs a windowed bolt with a fake clock that starts at 1 s."""

    def __init__(
        self, bolt: WindowedBolt, inputs: dict[Any, Sequence[str]] | None = None, **settings: Any
    ) -> None:
        self.now = 1.0
        fields = inputs or {"in": ["n", "ts"]}
        self.tester = BoltTester(
            bolt, inputs=fields, resources={CLOCK: lambda: self.now}, **settings
        )

    def give(self, *numbers: int, at: int | None = None, source: str = "in") -> None:
        """Gives tuples. Each number is also the tuple's time, unless `at` is given."""
        for number in numbers:
            self.tester.give([number, number if at is None else at], source)

    def tick(self, now: float | None = None) -> None:
        """Ticks at the given time."""
        self.now = self.now if now is None else now
        self.tester.tick()

    @property
    def shown(self) -> list[list[Any]]:
        """Returns the windows shown so far: all, new and expired tuples."""
        return [found[:3] for found in self.tester.emitted()]

    @property
    def spans(self) -> list[list[Any]]:
        """Returns the starts and ends."""
        return [found[3:] for found in self.tester.emitted()]
