"""The trees that a trace exporter skips, and its stored position.

`tests/integration/test_export_traces.py` tests the whole exporter.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kstorm.errors import BrokerError
from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.traces import tree_exporter
from kstorm.operations.traces.tree_exporter import ExportLimits, TreeExporter
from kstorm.operations.trees.outcomes import FAILED, OutcomeTracker, SlownessRule, TreeOutcome
from kstorm.testing import FeederSpout
from tests.unit.operations.rebuilding import HoldsAndSends, topology

SHAPE = outline_of(topology(FeederSpout("sentence"), HoldsAndSends(), third=True))
NOW = 1_700_000_000_000
MINUTE = 60_000


class Tail:
    """Contains a failed tree in each minute."""

    def __init__(self, begin: int) -> None:
        self.until = begin
        self.positions: dict[tuple[str, int], int] = {}

    def advance(self, until: int) -> Sequence[TreeOutcome]:
        self.until = min(until, self.until + MINUTE)
        return [TreeOutcome(self.until, FAILED, self.until - 1, self.until)]


class Log:
    def look_again(self) -> None:
        """The log does not grow."""


class Marks:
    """Records the stored positions."""

    def __init__(self) -> None:
        self.stored: list[int] = []

    def store(self, positions: object, until: int) -> None:
        self.stored.append(until)


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Provide the list of read roots. No tree is found."""
    found: list[int] = []

    def read(topology: object, log: object, outcomes: Sequence[TreeOutcome]) -> list[Any]:
        found.extend(outcome.root for outcome in outcomes)
        return []

    monkeypatch.setattr(tree_exporter, "read_trees", read)
    return found


def exporter(begin: int, limits: ExportLimits, marks: Any = None) -> TreeExporter:
    tail: Any = Tail(begin)
    log: Any = Log()
    collector: Any = None
    return TreeExporter(
        SHAPE,
        log,
        tail,
        OutcomeTracker(SHAPE, SlownessRule()),
        collector,
        limits,
        marks,
        now=lambda: NOW / 1000,
    )


def test_trees_beyond_the_age_limit_are_left_out(wanted: list[int]) -> None:
    """The exporter was away for half an hour.

    It counts trees of the first part, and sends the rest.
    """
    behind = exporter(NOW - 30 * MINUTE, ExportLimits(lag_ms=15 * MINUTE))
    while behind.tail.until < NOW:
        behind.step(NOW)
    assert wanted == [NOW - minutes * MINUTE for minutes in range(15, -1, -1)]
    assert behind.tally.late == 14
    assert "14 left out (older than 15 min)" in behind.report()


def test_position_is_stored_after_the_export(
    wanted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreadable range is tried again first, and its position is not stored."""
    marks = Marks()
    begun = exporter(NOW - 3 * MINUTE, ExportLimits(), marks)
    begun.step(NOW)
    assert marks.stored == [NOW - 2 * MINUTE]
    with monkeypatch.context() as patch:
        patch.setattr(tree_exporter, "read_trees", _fails)
        with pytest.raises(OSError, match="away"):
            begun.step(NOW)
    assert marks.stored == [NOW - 2 * MINUTE]
    begun.step(NOW)
    assert (marks.stored, wanted) == (
        [NOW - 2 * MINUTE, NOW - MINUTE],
        [NOW - 2 * MINUTE, NOW - MINUTE],
    )


def _fails(*_: object) -> None:
    raise OSError("away")


def test_follower_reports_while_brokers_do_not_respond(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The earlier exports would otherwise be reported only after the outage."""
    waits: list[int] = []

    class OutError(Exception):
        """Ends the follower."""

    class Cut:
        tally = True
        tail = SimpleNamespace(until=0)

        def step(self, until: int) -> None:
            raise BrokerError("no broker responds")

        def wait(self, tries: int, why: str) -> None:
            waits.append(tries)
            if len(waits) == 3:
                raise OutError

        def report(self) -> str:
            return "7 trees sent"

    cut: Any = Cut()
    with pytest.raises(OutError):
        tree_exporter.export_forever(cut, print, tell_secs=0.0)
    assert waits == [0, 1, 2]
    assert capsys.readouterr().out.splitlines() == ["7 trees sent"] * 2
