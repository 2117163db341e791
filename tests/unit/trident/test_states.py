"""The states of streams: running totals, custom states, and their queries."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest

from kstorm.testing import FeederSpout, LocalCluster, complete_topology, simulate
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import Config, Fields, Topology
from kstorm.topology.keys import key_text
from kstorm.trident import (
    Average,
    CombinerAggregator,
    Count,
    First,
    MapGet,
    MapState,
    Max,
    Min,
    ReducerAggregator,
    StateUpdater,
    Stream,
    Sum,
    TridentCollector,
    TridentTopology,
    TridentTuple,
    kstorm_state,
)
from tests.unit.trident.streams import Split, came_out

TEXT = [
    "the cow jumped over the moon",
    "the man went to the store",
    "four score and seven years ago",
    "how many cows",
    "",
]
COUNTS = Counter(word for sentence in TEXT for word in sentence.split())


def word_count(hint: int = 2) -> Topology:
    """Builds Storm's tutorial: a word count of sentences, and its queries."""
    topology = TridentTopology("wordcount")
    counts = (
        topology.new_stream("sentences", FeederSpout("sentence"))
        .each(Fields("sentence"), Split(), Fields("word"))
        .group_by(Fields("word"))
        .persistent_aggregate(kstorm_state(), Count(), Fields("count"))
        .parallelism_hint(hint)
    )
    counts.new_values_stream().to_kafka("counts", key="word")
    asked = topology.new_stream("asked", FeederSpout("word"))
    asked.state_query(counts, Fields("word"), MapGet(), Fields("count")).map(lambda *row: row).name(
        "answers"
    )
    return topology.build()


def last_counts(cluster: LocalCluster) -> dict[str, int]:
    """Returns the highest emitted count of each word."""
    found: dict[str, int] = {}
    for word, count in cluster.emitted("count"):
        found[word] = max(count, found.get(word, 0))
    return found


def test_words_are_counted_and_the_counts_can_be_asked() -> None:
    kafka = FakeKafka({"counts": 2})
    result = complete_topology(
        word_count(), {"sentences": [[line] for line in TEXT], "asked": []}, kafka=kafka
    )
    assert last_counts(result) == COUNTS
    with FakeKafka({"counts": 2}).cluster(word_count()) as cluster:
        spouts = {spec.id: spec.component for spec in cluster.topology.spouts}
        spouts["sentences"].feed(["the cow the"])  # type: ignore[attr-defined]
        cluster.run_until_idle()
        cluster.advance_time(5)
        for word in ("the", "cow", "nobody"):
            spouts["asked"].feed([word])  # type: ignore[attr-defined]
        cluster.run_until_idle()
        cluster.advance_time(5)
        assert sorted(cluster.emitted("answers")) == [["cow", 1], ["nobody", None], ["the", 2]]


def test_counts_are_exact_whatever_dies() -> None:
    """With random crashes, moves and refusals, no word is lost or counted twice.

    Each total has one record.
    """

    def exact(cluster: KafkaCluster) -> None:
        records = [json.loads(record.value() or b"") for record in cluster.kafka.records("counts")]
        assert len(records) == len({(record["word"], record["count"]) for record in records})
        assert {
            word: max(r["count"] for r in records if r["word"] == word) for word in COUNTS
        } == COUNTS

    inputs = {"sentences": [[line] for line in TEXT], "asked": []}
    simulate(word_count(), inputs, exact, range(10), kafka=lambda: FakeKafka({"counts": 2}))


def test_a_part_is_combined_before_it_travels() -> None:
    """A word is sent once per batch, however often it occurs. A separate hop is never added for it."""
    topology = word_count()
    assert topology.component("split").streams["default"].fields == Fields("word", "value")
    result = complete_topology(
        topology, {"sentences": [["a a a b"]], "asked": []}, kafka=FakeKafka({"counts": 2})
    )
    assert sorted(result.emitted("split")) == [["a", 3], ["b", 1]]
    direct = TridentTopology("t")
    direct.new_stream("words", FeederSpout("word")).group_by("word").persistent_aggregate(
        kstorm_state(), Count(), "n"
    )
    assert list(direct.build().components) == ["words", "count"]


def test_only_the_fields_that_are_needed_travel() -> None:
    """A sentence is not sent with each of its words. An operation on all fields needs all of them."""

    def travelling(*given: Any) -> Fields:
        topology = TridentTopology("t")
        words = (
            topology.new_stream("in", FeederSpout("place", "str"))
            .each("str", Split(), "word")
            .name("split")
        )
        words.group_by("place").persistent_aggregate(kstorm_state(), *given)
        return topology.build().component("split").streams["default"].fields

    assert travelling("word", Longest(), "longest") == Fields("place", "word")
    assert travelling(["word", "place"], Longest(), "longest") == Fields("place", "word")
    assert travelling(Longest(), "longest") == Fields("place", "str", "word")


@pytest.mark.parametrize(
    ("aggregator", "total"),
    [
        (Sum(), 10),
        (Min(), 1),
        (Max(), 4),
        (First(), 1),
        (Average(), 2.5),
        (Count(), 4),
        (lambda one, other: one * other, 24),
    ],
)
@pytest.mark.parametrize("mapped", [False, True], ids=["as they come", "in parts"])
def test_a_total_of_all(aggregator: CombinerAggregator, total: Any, mapped: bool) -> None:
    """Without groups, there is a single value."""

    def do(stream: Stream) -> Any:
        return (stream.map(lambda n: n) if mapped else stream).persistent_aggregate(
            kstorm_state(), "n", aggregator, "total"
        )

    assert came_out(do, ["n"], [[1], [2], [3], [4]])[-1] == [total]


class Longest(ReducerAggregator):
    def init(self) -> list[Any]:
        return ["", 0]

    def reduce(self, current: list[Any], tuple: TridentTuple) -> list[Any]:
        word, seen = current
        return [max(word, tuple["word"], key=len), seen + 1]


def test_reducer_continues_from_the_stored_value() -> None:
    def do(stream: Stream) -> Any:
        return stream.group_by("place").persistent_aggregate(
            kstorm_state(), "word", Longest(), "longest"
        )

    rows = [["x", "cow"], ["x", "moon"], ["y", "a"], ["x", "the"]]
    found = cast("list[tuple[str, list[Any]]]", came_out(do, ["place", "word"], rows))
    assert dict(found) == {"x": ["moon", 3], "y": ["a", 1]}


class Known(StateUpdater):
    """Emits each value when it first occurs."""

    def update_state(
        self, state: MapState, tuples: Sequence[TridentTuple], collector: TridentCollector
    ) -> None:
        for tuple in tuples:
            if state.get([tuple["id"]]) is None:
                state.put([tuple["id"]], True)
                collector.emit([tuple["id"]])


def test_an_updater_does_as_it_likes() -> None:
    def do(stream: Stream) -> Any:
        return (
            stream.partition_by("id")
            .partition_persist(kstorm_state(), "id", Known(), "id")
            .parallelism_hint(2)
        )

    assert sorted(came_out(do, ["id", "x"], [[1, 0], [2, 0], [1, 1], ["1", 0]]), key=str) == [
        ["1"],
        [1],
        [2],
    ]


def test_a_query_sees_results_and_not_what_is_kept() -> None:
    """The test queries an average by two fields."""
    topology = TridentTopology("t")
    spout, asked = FeederSpout("a", "b", "n"), FeederSpout("p", "q")
    means = (
        topology.new_stream("in", spout)
        .group_by("a", "b")
        .persistent_aggregate(kstorm_state(), "n", Average(), "mean")
        .parallelism_hint(3)
    )
    topology.new_stream("asked", asked).state_query(means, ["p", "q"], MapGet(), "mean").map(
        lambda *row: row
    ).name("out")
    with LocalCluster(topology.build()) as cluster:
        for number in (1, 2):
            spout.feed(["x", 1, number])
        cluster.run_until_idle()
        cluster.advance_time(5)
        asked.feed(["x", 1])
        asked.feed(["x", "1"])
        cluster.run_until_idle()
        cluster.advance_time(5)
        assert sorted(cluster.emitted("out"), key=str) == [["x", "1", None], ["x", 1, 1.5]]


@pytest.mark.parametrize(
    "keys",
    [
        (["1"], [1]),
        (["[1]"], [1]),
        (["a", "b"], ["a,b"]),
        ([], [""]),
        ([None], ["null"]),
        (['["a"]'], ["a"]),
    ],
)
def test_keys_that_differ_are_stored_apart(keys: tuple[list[Any], list[Any]]) -> None:
    assert key_text(keys[0]) != key_text(keys[1])
    assert key_text(["the"]) == "the"


def test_several_can_be_read_and_changed_at_once() -> None:
    """This is Storm's `MapState`."""
    kept: dict[str, Any] = {}

    class State:
        def get(self, key: str, default: Any = None) -> Any:
            return kept.get(key, default)

        def put(self, key: str, value: Any) -> None:
            kept[key] = value

        def delete(self, key: str) -> Any:
            return kept.pop(key, None)

    state = MapState(State())  # type: ignore[arg-type]
    state.multi_put([["a"], ["b", 1]], [1, 2])
    assert state.multi_get([["b", 1], ["a"], ["c"]]) == [2, 1, None]
    assert state.multi_update([["a"], ["c"]], [lambda old: old + 1, lambda old: old]) == [2, None]
    assert state.delete(["a"]) == 2
    assert state.get(["a"], 7) == 7
    state.put([], "all")
    assert state.get() == "all"


def test_changes_of_a_failed_batch_are_undone() -> None:
    """A failed tuple is retried alone, and becomes a dead letter in the end. The others count once."""

    class Picky(CombinerAggregator):
        def init(self, tuple: TridentTuple) -> int:
            return int(tuple[0])

        def combine(self, one: int, other: int) -> int:
            return one + other

        def zero(self) -> int:
            return 0

    topology = TridentTopology(
        "t", Config(topology_processing_guarantee="exactly_once", topology_bolt_retry_limit=1)
    )
    state = topology.new_stream("in", FeederSpout("n")).persistent_aggregate(
        kstorm_state(), "n", Picky(), "sum"
    )
    state.name("sum")
    result = complete_topology(topology.build(), {"in": [["1"], ["x"], ["2"], ["3"]]})
    assert result.emitted("sum")[-1] == [6]
    assert [letter.kind for letter in result.dead_letters] == ["failed"]
