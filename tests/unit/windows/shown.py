"""What a windowed bolt is shown, for the tests of windows."""

from collections.abc import Sequence
from typing import Any

from kstorm.testing import BoltTester
from kstorm.topology import OutputFieldsDeclarer
from kstorm.topology.context import CLOCK
from kstorm.windows import TupleWindow, WindowedBolt


class Shown(WindowedBolt):
    """Emits what it is shown: values, new ones, expired ones, and where the window begins and ends."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("all", "new", "expired", "start", "end")

    def execute(self, window: TupleWindow) -> None:
        """Emits it."""
        parts = ([tuple["n"] for tuple in part] for part in (window, window.new, window.expired))
        self.collector.emit([*parts, window.start_timestamp, window.end_timestamp])


class Run:
    """A windowed bolt with a clock, which stands at 1 s."""

    def __init__(
        self, bolt: WindowedBolt, inputs: dict[Any, Sequence[str]] | None = None, **settings: Any
    ) -> None:
        self.now = 1.0
        fields = inputs or {"in": ["n", "ts"]}
        self.tester = BoltTester(
            bolt, inputs=fields, resources={CLOCK: lambda: self.now}, **settings
        )

    def give(self, *numbers: int, at: int | None = None, source: str = "in") -> None:
        """Tuples, each with its number as its time unless it is said."""
        for number in numbers:
            self.tester.give([number, number if at is None else at], source)

    def tick(self, now: float | None = None) -> None:
        """A tick, when it is so late."""
        self.now = self.now if now is None else now
        self.tester.tick()

    @property
    def shown(self) -> list[list[Any]]:
        """What was shown so far, as all, new and expired."""
        return [found[:3] for found in self.tester.emitted()]

    @property
    def spans(self) -> list[list[Any]]:
        """The beginnings and ends."""
        return [found[3:] for found in self.tester.emitted()]
