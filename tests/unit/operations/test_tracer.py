"""The tracer reads only the necessary records, and finds all of a tree.

`tests/integration/test_trace.py` tests it on real servers.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.traces.recent_records import RecentRecords
from kstorm.operations.traces.slowest_trees import slowest_trees
from kstorm.operations.traces.topic_log import (
    PartitionBounds,
    PartitionId,
    Ranges,
    ReadBudget,
    TopicLog,
)
from kstorm.operations.traces.tracer import Tracer
from kstorm.operations.traces.tree_batches import TreeBatch, read_trees
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.open_edges import open_edges
from kstorm.operations.trees.outcomes import SLOW, TreeOutcome
from kstorm.operations.trees.tree_reader import TopicRecord
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.topology import Bolt, Tuple
from tests.unit.operations.rebuilding import rebuilt, records, roots, topology

BEGIN: Final = 1_700_000_000_000
EVERY_MS: Final = 10_000
HELD, FORGOTTEN = (9, 26), (5, 27)
"""Sentence numbers. The held ones are acked ten or twenty seconds later.

One of each kind is in the last minute.
"""
SAID: Final = (
    dict.fromkeys(HELD, "under the sun")
    | dict.fromkeys(FORGOTTEN, "over the moon")
    | {10: "noon", 28: "noon"}
)
SENTENCES: Final = [SAID.get(number, "the cow jumped") for number in range(30)]


class Log(TopicLog):
    """Records in memory that also stores the reads."""

    def __init__(self, found: Sequence[TopicRecord], places: Sequence[PartitionId]) -> None:
        self.budget = ReadBudget(10**9, 60)
        self._of: dict[PartitionId, list[TopicRecord]] = {place: [] for place in places}
        for record in found:
            self._of[record.topic, record.partition].append(record)
        self.read_from: list[TopicRecord] = []

    def places(self, topic: str) -> list[PartitionId]:
        return [place for place in self._of if place[0] == topic]

    def everything(self) -> list[TopicRecord]:
        """Returns all records by time, one tree after the other."""
        return sorted(
            self.read({place: self.bounds(place) for place in self._of}),
            key=lambda record: record.timestamp,
        )

    def look_again(self) -> None:
        """The topics do not grow."""

    def bounds(self, place: PartitionId) -> PartitionBounds:
        return PartitionBounds(0, len(self._of[place]))

    def offsets_at(self, places: Sequence[PartitionId], ms: float) -> dict[PartitionId, int]:
        return {
            place: sum(record.timestamp < int(ms) for record in self._of[place]) for place in places
        }

    def read(self, ranges: Ranges) -> Iterator[TopicRecord]:
        for place, (start, end) in ranges.items():
            for record in self._of[place][start:end]:
                self.read_from.append(record)
                yield record


class Holds(Bolt):
    """Never acks `moon`, and acks `sun` at the word `noon`."""

    def execute(self, tuple: Tuple) -> None:
        if tuple["word"] == "sun":
            self.sun = tuple
        elif tuple["word"] != "moon":
            self.collector.ack(tuple)
        if tuple["word"] == "noon":
            self.collector.ack(self.sun)


@pytest.fixture(scope="module")
def told() -> tuple[Log, Any]:
    """Provide the records of thirty sentences, ten seconds apart, and the topology."""
    feeder = FeederSpout("sentence")
    stamped: dict[tuple[str, int, int], TopicRecord] = {}
    with LocalCluster(topology(feeder, Holds(), tasks=1)) as cluster:
        for number, sentence in enumerate(SENTENCES):
            feeder.feed([sentence], number)
            cluster.run_until_idle()
            for record in records(cluster):
                stamped.setdefault(record[:3], record._replace(timestamp=BEGIN + number * EVERY_MS))
        shape = cluster.topology
        places = [
            (topic, partition)
            for topic, count in shape.topics().items()
            for partition in range(count)
        ]
        return Log(list(stamped.values()), places), shape


@pytest.mark.parametrize("clock_ms", [0, -600_000, 600_000], ids=["right", "behind", "ahead"])
@pytest.mark.parametrize("number", [0, *FORGOTTEN, *HELD, 20, len(SENTENCES) - 1])
def test_tracer_reads_the_whole_tree(
    told: tuple[Log, Any], number: int, clock_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tree may end at once, ten seconds later or never. This machine's clock does not matter."""
    log, shape = told
    now = BEGIN + len(SENTENCES) * EVERY_MS + clock_ms
    monkeypatch.setattr(time, "time", lambda: now / 1000)
    everything = log.everything()
    root = roots(everything)[number]
    whole = rebuilt(shape, everything, root)
    tree = Tracer(outline_of(shape), log).tree(root, BEGIN + number * EVERY_MS)
    assert tree.outcome == ("open" if number in FORGOTTEN else "acked")
    assert (tree.outcome, tree.tuples.keys(), tree.proof) == (
        whole.outcome,
        whole.tuples.keys(),
        whole.proof,
    )
    assert open_edges(tree).unacked == open_edges(whole).unacked
    assert bool(open_edges(tree).unacked) == (number in FORGOTTEN)


@pytest.mark.parametrize(
    ("number", "most_ms"), [(3, 10_000), (HELD[0], 40_000), (FORGOTTEN[0], 40_000)]
)
def test_tracer_reads_only_the_necessary_records(
    told: tuple[Log, Any], number: int, most_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished tree needs the records of its time, and an open one those of its timeout.

    Tuple topics are read only for the moment of the init.
    """
    log, shape = told
    monkeypatch.setattr(time, "time", lambda: (BEGIN + len(SENTENCES) * EVERY_MS) / 1000)
    root = roots(log.everything())[number]
    log.read_from.clear()
    Tracer(outline_of(shape), log).tree(root, BEGIN + number * EVERY_MS)
    begun = BEGIN + number * EVERY_MS
    assert log.read_from
    assert {record.timestamp for record in log.read_from} <= set(
        range(begun, begun + most_ms + 1, EVERY_MS)
    )
    topics = (shape.bolt_topic("split"), shape.bolt_topic("count"))
    tuples = {record.timestamp for record in log.read_from if record.topic in topics}
    assert tuples == {begun}


@pytest.mark.parametrize("numbers", [[3], [4, 5], [9, 10], [0, 27]])
def test_several_trees_are_read_at_once(told: tuple[Log, Any], numbers: Sequence[int]) -> None:
    """The rule is the same: each tree is complete, and no record is read twice.

    Times without work of any of the trees are not read.
    """
    log, shape = told
    everything = log.everything()
    begun = {
        root: BEGIN + number * EVERY_MS
        for number, root in enumerate(roots(everything))
        if number in numbers
    }
    wanted = [TreeOutcome(root, SLOW, at, at + 20_000) for root, at in begun.items()]
    log.read_from.clear()
    found = list(read_trees(outline_of(shape), log, wanted))
    read = list(log.read_from)
    assert [outcome.root for outcome, _, _ in found] == list(begun)
    for outcome, tree, whole in found:
        expected = rebuilt(shape, everything, outcome.root)
        assert (tree.outcome, tree.tuples.keys(), tree.proof, whole) == (
            expected.outcome,
            expected.tuples.keys(),
            expected.proof,
            True,
        )
    assert len(read) == len({record[:3] for record in read})
    assert {record.timestamp for record in read} <= {
        at + more for at in begun.values() for more in (0, 10_000, 20_000)
    }


@pytest.mark.parametrize(
    "numbers", [[26, 27, 28, 29], [5, 27], range(len(SENTENCES))], ids=["late", "open", "all"]
)
def test_open_trees_are_read_at_once(
    told: tuple[Log, Any], numbers: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tree is the same as when it is read alone.

    For trees of the last minute, no record is read twice, neither of the ackers nor of the bolts.
    """
    log, shape = told
    monkeypatch.setattr(time, "time", lambda: (BEGIN + len(SENTENCES) * EVERY_MS) / 1000)
    everything = log.everything()
    begun = {
        root: BEGIN + number * EVERY_MS
        for number, root in enumerate(roots(everything))
        if number in numbers
    }
    recent = RecentRecords(log, shape.acker_topic, log.places(shape.acker_topic))
    log.read_from.clear()
    found = TreeBatch(outline_of(shape), log, begun).read(3_600_000, recent=recent)
    read = list(log.read_from)
    assert found.keys() == begun.keys()
    for root, tree in found.items():
        whole = rebuilt(shape, everything, root)
        assert (tree.outcome, tree.tuples.keys(), tree.proof) == (
            whole.outcome,
            whole.tuples.keys(),
            whole.proof,
        )
    if min(begun.values()) >= recent.since:
        assert len(read) == len({record[:3] for record in read})


def test_recent_records_are_read_for_a_minute_only(
    told: tuple[Log, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long message timeout does not matter. The last minute is read once for all messages."""
    log, shape = told
    now = BEGIN + len(SENTENCES) * EVERY_MS
    monkeypatch.setattr(time, "time", lambda: now / 1000)
    recent = RecentRecords(log, shape.acker_topic, log.places(shape.acker_topic))
    log.read_from.clear()
    for offset in range(3):
        assert recent.begun(MessageId("elsewhere", 0, offset)) == []
    stamps = [record.timestamp for record in log.read_from]
    assert min(stamps) == now - 60_000
    assert len(log.read_from) == len({record[:3] for record in log.read_from})


def test_the_slowest_that_were_open_at_a_time(told: tuple[Log, Any]) -> None:
    """Trees that began later, or had ended, are excluded. Earlier records are not searched."""
    log, shape = told
    all_roots = roots(log.everything())
    begun = {root: BEGIN + number * EVERY_MS for number, root in enumerate(all_roots)}
    first, second = (all_roots[number] for number in HELD)

    def found(open_at: int | None, since: int = BEGIN) -> list[int]:
        slow = slowest_trees(outline_of(shape), log, since, 1, open_at=open_at)
        assert all(begun[root] == at for root, at in slow)
        return [root for root, _ in slow]

    assert found(None) == [second], "it waited for longest"
    assert found(begun[first] + 5_000) == [first]
    assert found(begun[second] + 15_000) == [second]
    assert found(begun[first] + 15_000) == []
    assert found(begun[first] + 5_000, since=begun[first] + 1) == []
