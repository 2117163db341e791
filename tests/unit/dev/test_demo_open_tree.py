"""The trace at the end of the demo, of a message whose tree was open at a kill."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kstorm.dev.demo import open_tree
from kstorm.dev.demo.kills import Kill
from kstorm.dev.demo.open_tree import trace_of_open_tree
from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.topology import Topology

SETTINGS = Settings(topology="a:b")
TOPOLOGY = cast("Topology", None)
KILLED_AT = 1_795_000_000.0


def kill(name: str, at: float) -> Kill:
    return Kill(cast("Any", SimpleNamespace(name=name)), 1, 1, 0.0, at)


@pytest.fixture(autouse=True)
def without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw a tree with as many lines as its root's number."""

    @contextmanager
    def log(*_: object) -> Iterator[None]:
        yield None

    monkeypatch.setattr(open_tree, "TopicLog", log)
    monkeypatch.setattr(open_tree, "outline_of", lambda topology: topology)
    monkeypatch.setattr(
        open_tree, "Tracer", lambda *_: SimpleNamespace(tree=lambda root, begun: root)
    )
    monkeypatch.setattr(
        open_tree, "draw", lambda root, topology: [f"line {number}" for number in range(root)]
    )


def slow(
    monkeypatch: pytest.MonkeyPatch, *found: tuple[int, float]
) -> list[tuple[int, int | None]]:
    """Set the roots, slowest first, with the start of each tree in seconds after the kill.

    Returns the queries: the start of the search, and the time at which the trees were open.
    """
    asked: list[tuple[int, int | None]] = []

    def slowest(
        topology: object, log: object, since: int, count: int, *, open_at: int | None = None
    ) -> Sequence[tuple[int, int]]:
        asked.append((since, open_at))
        return [(root, int((KILLED_AT + after) * 1000)) for root, after in found]

    monkeypatch.setattr(open_tree, "slowest_trees", slowest)
    return asked


def test_trace_shows_the_slowest_tree_open_at_the_last_kill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`slowest` selects these trees. A long trace is cut."""
    asked = slow(monkeypatch, (3, -0.2), (5, -0.1))
    lines = trace_of_open_tree(
        TOPOLOGY, SETTINGS, [kill("acker-0", 1.0), kill("count-0", KILLED_AT)]
    )
    assert lines[0].startswith("A message that was in flight when count-0 was killed")
    assert lines[1:] == ["line 0", "line 1", "line 2"]
    assert asked == [(int((KILLED_AT - 10) * 1000), int(KILLED_AT * 1000))]
    slow(monkeypatch, (40, -0.2))
    lines = trace_of_open_tree(TOPOLOGY, SETTINGS, [kill("count-0", KILLED_AT)])
    assert (len(lines), lines[-2:]) == (16, ["line 13", "… and 26 more lines"])


def test_missing_trace_does_not_fail_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line has the reason. Without a kill, nothing is printed."""
    slow(monkeypatch)
    assert trace_of_open_tree(TOPOLOGY, SETTINGS, [kill("count-0", KILLED_AT)]) == [
        "no tree was open when count-0 was killed"
    ]
    assert trace_of_open_tree(TOPOLOGY, SETTINGS, []) == []

    def fails(*_: object, **__: object) -> None:
        raise BrokerError("no broker")

    monkeypatch.setattr(open_tree, "slowest_trees", fails)
    assert trace_of_open_tree(TOPOLOGY, SETTINGS, [kill("count-0", KILLED_AT)]) == [
        "the trace of a message that count-0 held cannot be shown: no broker"
    ]
