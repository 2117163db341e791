"""The trace at the demo's end, of a message whose tree was open when a process was killed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kstorm.errors import BrokerError
from kstorm.local.demo import open_tree
from kstorm.local.demo.kills import Kill
from kstorm.local.demo.open_tree import trace_of_open_tree
from kstorm.runtime.service.settings import Settings
from kstorm.topology import Topology

SETTINGS = Settings(topology="a:b")
TOPOLOGY = cast("Topology", None)
KILLED_AT = 1_795_000_000.0


def kill(name: str, at: float) -> Kill:
    return Kill(cast("Any", SimpleNamespace(name=name)), 1, 1, 0.0, at)


@pytest.fixture(autouse=True)
def without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are drawn as so many lines as their root is."""

    @contextmanager
    def log(*_: object) -> Iterator[None]:
        yield None

    monkeypatch.setattr(open_tree, "TopicLog", log)
    monkeypatch.setattr(open_tree, "outline", lambda topology: topology)
    monkeypatch.setattr(
        open_tree, "Tracer", lambda *_: SimpleNamespace(tree=lambda root, begun: root)
    )
    monkeypatch.setattr(
        open_tree, "draw", lambda root, topology: [f"line {number}" for number in range(root)]
    )


def slow(
    monkeypatch: pytest.MonkeyPatch, *found: tuple[int, float]
) -> list[tuple[int, int | None]]:
    """Roots, slowest first, each with how many seconds after the death its tree began; notes from when on they are looked for, and
    when they were open."""
    asked: list[tuple[int, int | None]] = []

    def slowest(
        topology: object, log: object, since: int, count: int, *, open_at: int | None = None
    ) -> Sequence[tuple[int, int]]:
        asked.append((since, open_at))
        return [(root, int((KILLED_AT + after) * 1000)) for root, after in found]

    monkeypatch.setattr(open_tree, "slowest", slowest)
    return asked


def test_it_is_the_slowest_that_was_open_at_the_last_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which those are, `slowest` is asked. A long one is cut."""
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


def test_nothing_of_it_is_a_fault_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says in a line why there is no trace; and nothing if nobody was killed."""
    slow(monkeypatch)
    assert trace_of_open_tree(TOPOLOGY, SETTINGS, [kill("count-0", KILLED_AT)]) == [
        "no tree was open when count-0 was killed"
    ]
    assert trace_of_open_tree(TOPOLOGY, SETTINGS, []) == []

    def fails(*_: object, **__: object) -> None:
        raise BrokerError("no broker")

    monkeypatch.setattr(open_tree, "slowest", fails)
    assert trace_of_open_tree(TOPOLOGY, SETTINGS, [kill("count-0", KILLED_AT)]) == [
        "the trace of a message that count-0 held cannot be shown: no broker"
    ]
