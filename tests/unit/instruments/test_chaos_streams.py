"""The streams topology of chaos produces in memory the output that its audit expects.

The audit finds injected defects.
"""

import random
from collections.abc import Iterator

import pytest

from kstorm.testing.kafka import FakeKafka
from kstorm.topology import Tuple
from kstorm.trident import Count
from kstorm.windows.manager import WindowManager
from kstorm.windows.pane_aggregates import PaneAggregateManager
from kstorm.windows.panes import Shown
from kstorm.windows.window import TupleWindow
from kstorm.windows.window_store import WindowStore
from tests.chaos.events import event, last_events
from tests.chaos.evidence import Evidence
from tests.chaos.feed import PostedMessage
from tests.chaos.findings import ChaosFindings, Record, RecordPlace
from tests.chaos.streams import BRANCHES, COUNTS, TOLD, EchoMapper, topology
from tests.chaos.streams_audit import audit_streams
from tests.chaos.topology import PARTITIONS, SOURCE

MESSAGES, RATE = 120, 10.0
"""Twelve seconds of event time."""


def given(number: int) -> PostedMessage:
    return PostedMessage(f"m{number}", event(number, RATE), number % PARTITIONS)


def records(kafka: FakeKafka, topic: str) -> Iterator[Record]:
    for each in kafka.records(topic):
        yield Record(
            RecordPlace(topic, each.partition() or 0, each.offset() or 0),
            each.value() or b"",
            each.timestamp()[1],
        )


def run(seed: int = 0, *, kills: int = 0) -> ChaosFindings:
    """Run all branches, kill some processes, and audit the output."""
    kafka = FakeKafka({SOURCE: PARTITIONS, COUNTS: 4, TOLD: 4})
    chance = random.Random(seed)
    built = topology()
    with kafka.cluster(built, seed) as cluster:
        for number in range(MESSAGES):
            kafka.produce(SOURCE, given(number).text, partition=given(number).partition)
        for _ in range(kills):
            for _ in range(chance.randrange(300)):
                cluster.step()
            cluster.crash(
                chance.choice(list(built.components)), disk=chance.choice(["kept", "lost"])
            )
        cluster.run_until_idle()
        last = last_events(MESSAGES, RATE)
        for each in last:
            kafka.produce(SOURCE, each.text, partition=each.partition)
        for _ in range(3):
            cluster.run_until_idle()
            cluster.advance_time(2)
        cluster.run_until_idle()
    evidence = Evidence(
        sorted(records(kafka, SOURCE)),
        lambda topic: iter(sorted(records(kafka, topic))),
        last={each.id for each in last},
    )
    return audit_streams(evidence, BRANCHES)


@pytest.mark.parametrize("kills", [0, 6])
def test_audit_of_a_correct_run_finds_nothing(kills: int) -> None:
    """This holds if processes die, too."""
    found = run(kills, kills=kills)
    assert found.faults() == []
    assert (found.duplicates, found.over) == ([], 0)
    assert found.outputs > MESSAGES


# The tests below break the product. The audit must name the defect.


def test_word_counted_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect resembles a batch that was added twice."""
    monkeypatch.setattr(Count, "combine", lambda self, one, other: one + other + (one > 0))
    found = run()
    assert found.over > 0
    assert found.duplicates == []


def test_forgotten_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect resembles a state that was rolled back."""
    monkeypatch.setattr(Count, "combine", lambda self, one, other: one + other - (one > 0))
    found = run()
    assert found.short
    assert "counted short" in found.faults()[0]


def test_tuple_missing_in_all_windows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bolt acks it without storing it."""
    add = WindowStore.add

    def forget(self: WindowStore, time: int, number: int, tuple: Tuple) -> None:
        if tuple["id"] != "m8":
            add(self, time, number, tuple)

    monkeypatch.setattr(WindowStore, "add", forget)
    found = run()
    assert {lost.id for lost in found.lost} >= {"m8"}
    assert {lost.missing.partition(":")[0].partition(" ")[0] for lost in found.lost} <= {
        "window",
        "joined",
    }


def test_tuple_twice_in_a_window_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect resembles a tuple that was stored again after a crash."""
    add = WindowStore.add

    def again(self: WindowStore, time: int, number: int, tuple: Tuple) -> None:
        add(self, time, 2 * number, tuple)
        if tuple["id"] == "m8":
            add(self, time, 2 * number + 1, tuple)

    monkeypatch.setattr(WindowStore, "add", again)
    found = run()
    assert {copy.id.partition(" ")[0] for copy in found.duplicates} >= {"m8"}


def test_window_shown_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect resembles a bolt that forgets which windows it has shown."""
    due = WindowManager.due

    def twice(self: WindowManager, time: int) -> Iterator[TupleWindow]:
        for window in due(self, time):
            yield from [window] * 2

    monkeypatch.setattr(WindowManager, "due", twice)
    found = run()
    assert any(copy.id.startswith("the window of task") for copy in found.duplicates)
    assert any(copy.id.startswith("joined: ") for copy in found.duplicates)


@pytest.mark.slow
def test_sum_that_never_drops_tuples_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaneAggregateManager, "_drop", lambda *_: None)
    found = run()
    assert {lost.missing.partition(":")[0] for lost in found.lost} == {"sums"}
    assert {record.value[:14] for record in found.corrupted} == {b'{"of":"spans",'}


def test_sum_shown_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect resembles a bolt that forgets how far it has shown a window."""
    moved = PaneAggregateManager._values

    def twice(self: PaneAggregateManager, end: int) -> Iterator[Shown]:
        for each in moved(self, end):
            yield from [each] * 2

    monkeypatch.setattr(PaneAggregateManager, "_values", twice)
    found = run()
    assert found.lost == []
    assert {copy.id.partition(" (")[0] for copy in found.duplicates} == {"the sums"}


@pytest.mark.parametrize("other", ["m9", "m10"])
def test_wrong_pair_is_found(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """The right pair is lost. The wrong one is corrupted or a duplicate."""
    message = EchoMapper.get_message_from_tuple

    def changed(self: EchoMapper, tuple: Tuple) -> bytes:
        return message(self, tuple).replace(b'"left":"m8"', f'"left":"{other}"'.encode())

    monkeypatch.setattr(EchoMapper, "get_message_from_tuple", changed)
    found = run()
    assert {lost.missing for lost in found.lost} == {"paired: m8 with m9", "paired: m8 with m11"}
    assert (len(found.corrupted), len(found.duplicates)) == ((2, 0) if other == "m9" else (0, 2))
