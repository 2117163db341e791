"""States in a database: the counts after crashes between the database and Kafka."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kstorm.errors import ConfigError, FencedError, StorageError
from kstorm.testing import FeederSpout, complete_topology, simulate
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import Topology
from kstorm.trident import (
    Average,
    BackingMap,
    Count,
    MapFactory,
    MapGet,
    NonTransactionalMap,
    OpaqueMap,
    Owner,
    ReducerAggregator,
    SqlMap,
    TransactionalMap,
    TridentTopology,
    TridentTuple,
)

TEXT = [
    "the cow jumped over the moon",
    "the man went to the store",
    "four score and seven years ago",
    "how many cows",
    "the",
]
COUNTS = Counter(word for sentence in TEXT for word in sentence.split())
SEEDS = range(10, 21)
"""Three or more of these schedules fail if any rule of either kind of state is switched off."""


class Memory(BackingMap):
    """A database that outlives all processes."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.lives: Counter[str] = Counter()
        self.last: dict[str, list[str]] = {}
        self.refused = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> "Memory":
        return self

    def begin_life(self, task: str) -> tuple[Owner, Sequence[str]]:
        self.lives[task] += 1
        return Owner(task, self.lives[task]), self.last.get(task, [])

    def multi_get(self, keys: Sequence[str]) -> list[Any]:
        return [self.rows.get(key) for key in keys]

    def multi_put(self, owner: Owner, keys: Sequence[str], values: Sequence[Any]) -> None:
        if self.lives[owner.task] != owner.life:
            self.refused += 1
            raise FencedError(f"another process has taken over {owner}")
        self.last[owner.task] = list(keys)
        self.rows |= zip(keys, values, strict=True)


def word_count(state: MapFactory, aggregator: Any = None) -> Topology:
    """Builds a word count in a database."""
    topology = TridentTopology("wordcount")
    words = (
        topology.new_stream("sentences", FeederSpout("sentence"))
        .each("sentence", str.split, "word")
        .name("split")
    )
    counts = (
        words.group_by("word")
        .persistent_aggregate(state, aggregator or Count(), "count")
        .parallelism_hint(2)
    )
    counts.name("count").new_values_stream().to_kafka("counts", key="word")
    asked = topology.new_stream("asked", FeederSpout("word"))
    asked.state_query(counts, "word", MapGet(), "n").to_kafka("answers")
    return topology.build()


def opaque(memory: Memory) -> dict[str, int]:
    """Returns the stored count of each word."""
    return {key: value[0] for key, (_, value, _) in memory.rows.items() if value}


def transactional(memory: Memory) -> dict[str, int]:
    return {key: value for key, (_, value) in memory.rows.items()}


@pytest.mark.parametrize(
    ("kind", "stored"),
    [(OpaqueMap, opaque), (TransactionalMap, transactional)],
    ids=["opaque", "transactional"],
)
def test_counts_are_exact_whatever_dies(
    kind: Callable[[BackingMap], MapFactory], stored: Callable[[Memory], dict[str, int]]
) -> None:
    """Random schedules crash at each step. Each new value is written to Kafka once."""
    databases: list[Memory] = []

    def build() -> Topology:
        databases.append(Memory())
        return word_count(kind(databases[-1]))

    def exact(cluster: KafkaCluster) -> None:
        assert stored(databases[-1]) == COUNTS
        records = [json.loads(record.value() or b"") for record in cluster.kafka.records("counts")]
        assert len(records) == len({(record["word"], record["count"]) for record in records})
        assert {
            word: max(r["count"] for r in records if r["word"] == word) for word in COUNTS
        } == COUNTS

    inputs = {"sentences": [[line] for line in TEXT], "asked": []}
    report = simulate(
        build, inputs, exact, SEEDS, kafka=lambda: FakeKafka({"counts": 2, "answers": 1})
    )
    assert sum(report.in_flight.values()) > 25
    assert sum(max(each.lives.values()) > 1 for each in databases) > 3, "tasks had several lives"


def test_non_transactional_state_may_overcount() -> None:
    """It never undercounts. The other two kinds are there to avoid this."""
    over = 0

    def build() -> Topology:
        databases.append(Memory())
        return word_count(NonTransactionalMap(databases[-1]))

    def judge(cluster: KafkaCluster) -> None:
        nonlocal over
        assert not COUNTS - Counter(databases[-1].rows)
        over += databases[-1].rows != COUNTS

    databases: list[Memory] = []
    inputs = {"sentences": [[line] for line in TEXT], "asked": []}
    simulate(build, inputs, judge, SEEDS, kafka=lambda: FakeKafka({"counts": 2, "answers": 1}))
    assert over > 0


@pytest.mark.parametrize("kind", [OpaqueMap, TransactionalMap, NonTransactionalMap])
def test_a_database_of_sql(kind: Callable[[BackingMap], MapFactory], tmp_path: Path) -> None:
    """A restarted task continues with the stored values.

    A query returns results, not stored values.
    """
    connect = partial(sqlite3.connect, tmp_path / "counts.db", check_same_thread=False, timeout=30)
    kafka = FakeKafka({"counts": 2, "answers": 1})
    with kafka.cluster(word_count(kind(SqlMap(connect, "lengths")), Length())) as cluster:
        spouts: dict[str, Any] = {spec.id: spec.component for spec in cluster.topology.spouts}

        def feed(spout: str, *lines: str) -> None:
            for line in lines:
                spouts[spout].feed([line])
            cluster.run_until_idle()
            cluster.advance_time(5)

        feed("sentences", "cow the cow", "cow")
        cluster.crash("count")
        cluster.run_until_idle()
        feed("sentences", "cow")
        feed("asked", "cow", "nobody")
    answers = [json.loads(record.value() or b"") for record in kafka.records("answers")]
    assert sorted(answers, key=str) == [{"word": "cow", "n": 3.0}, {"word": "nobody", "n": None}]
    records = [json.loads(record.value() or b"") for record in kafka.records("counts")]
    assert {"word": "the", "count": 3.0} in records


class Length(Average):
    """Computes the mean length of a word."""

    def init(self, tuple: TridentTuple) -> list[Any]:
        return [len(tuple["word"]), 1]


def sql(tmp_path: Path) -> SqlMap:
    database = SqlMap(partial(sqlite3.connect, tmp_path / "x.db"), "rows")
    database.open()
    return database


def test_ended_process_writes_nothing(tmp_path: Path) -> None:
    """It does not even write keys that the new process has not touched."""
    database = sql(tmp_path)
    old, stored = database.begin_life("t/0")
    assert stored == []
    database.multi_put(old, ["a", "b"], [1, ["x", None]])
    other, _ = database.begin_life("t/1")
    new, stored = database.begin_life("t/0")
    assert stored == ["a", "b"]
    assert new.life > old.life
    with pytest.raises(FencedError, match="another process has taken over t/0"):
        database.multi_put(old, ["c"], [1])
    database.multi_put(other, ["d"], [4])
    assert database.multi_get(["a", "b", "c", "d"]) == [1, ["x", None], None, 4]
    keys = [str(number) for number in range(1200)]
    database.multi_put(new, keys, list(range(1200)))
    assert database.multi_get(keys) == list(range(1200))
    database.close()


def test_a_table_is_a_name() -> None:
    with pytest.raises(ConfigError, match="use letters, digits and '_'"):
        SqlMap(partial(sqlite3.connect, ":memory:"), "counts; --")


class State(dict[str, Any]):
    """A task's own state."""

    put = dict.__setitem__

    def range(self, start: str, end: str) -> list[tuple[str, Any]]:
        return [(key, self[key]) for key in sorted(self) if start <= key < end]

    def delete(self, key: str) -> Any:
        return self.pop(key, None)


def test_values_of_a_lost_epoch_are_rolled_back() -> None:
    """In Storm the value stays if the repeated batch has other keys."""
    memory = Memory()
    state: Any = State()
    first = OpaqueMap(memory).map("t/0")
    first.begin(state)
    first.open()
    first.load([["a"], ["b"]])
    first.multi_put([["a"], ["b"]], [5, 7])
    first.keep()
    first.write(first.before_commit())  # the process dies here
    second = OpaqueMap(memory).map("t/0")
    second.begin(state)
    second.open()
    second.load([["a"]])
    assert second.get(["a"]) is None
    second.multi_put([["a"]], [1])
    second.keep()
    second.write(second.before_commit())
    second.end_epoch()
    second.load([["a"], ["b"]])
    assert (second.get(["a"]), second.get(["b"])) == (1, None)
    assert opaque(memory) == {"a": 1}


def test_database_of_another_topology_is_refused() -> None:
    memory = Memory()
    memory.rows["a"] = [9, [1], []]
    found = OpaqueMap(memory).map("t/0")
    state: Any = State()
    found.begin(state)
    found.open()
    with pytest.raises(
        StorageError, match="t/0 is at epoch 1, but the database has values of epoch 9"
    ):
        found.load([["a"]])


class Absent(Memory):
    """Does not respond to the first requests."""

    away = 5

    def multi_get(self, keys: Sequence[str]) -> list[Any]:
        if keys and self.away:
            self.away -= 1
            raise OSError("no route to the database")
        return super().multi_get(keys)


def test_tuples_wait_during_a_database_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of missing answers does not matter. No tuple fails or is given up."""
    monkeypatch.setattr("kstorm.trident.bolts.AGAIN_SECS", 0.0)
    database = Absent()
    inputs: dict[str, Any] = {"sentences": [["a b a"], ["b"]], "asked": [["a"]]}
    result = complete_topology(
        word_count(OpaqueMap(database)), inputs, kafka=FakeKafka({"counts": 1, "answers": 1})
    )
    assert database.away == 0
    assert (result.errors, result.dead_letters) == ([], [])
    assert opaque(database) == {"a": 2, "b": 2}


class Collected(ReducerAggregator):
    """Changes its value in place."""

    def init(self) -> list[str]:
        return []

    def reduce(self, current: list[str], tuple: TridentTuple) -> list[str]:
        current.append(tuple["word"])
        return current


def test_the_value_before_is_kept_from_a_reducer_that_changes_it_in_place() -> None:
    """Otherwise a repeated epoch would start with its own result."""
    database = Memory()
    topology = word_count(OpaqueMap(database), Collected())
    kafka = FakeKafka({"counts": 1, "answers": 1})
    with kafka.cluster(topology) as cluster:
        spout: Any = cluster.topology.component("sentences").component
        for _ in range(2):
            spout.feed(["a"])
            cluster.run_until_idle()
            cluster.checkpoint()
    assert database.rows["a"][1:] == [[["a", "a"]], [["a"]]]


def test_committed_unwritten_values_are_not_read_from_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This holds for any size of the cache."""
    monkeypatch.setattr("kstorm.trident.external._MOST_CACHED", 0)
    state: Any = State()
    found = TransactionalMap(Memory()).map("t/0")
    found.begin(state)
    found.open()
    found.load([["a"]])
    found.multi_put([["a"]], [1])
    found.keep()
    found.end_epoch()
    found.load([["b"]])
    found.load([["a"]])
    assert found.get(["a"]) == 1


def test_changes_of_a_failed_execution_are_discarded() -> None:
    found = OpaqueMap(Memory()).map("t/0")
    state: Any = State()
    found.begin(state)
    found.open()
    found.load([["a"]])
    found.multi_put([["a"]], [1])
    found.load([["a"]])
    assert found.get(["a"]) is None
    assert not found.has_changed


@pytest.mark.parametrize("kind", [OpaqueMap, TransactionalMap, NonTransactionalMap])
def test_a_value_is_read_as_the_database_returns_it(kind: Any) -> None:
    """This includes values before they are stored. An unstorable value fails before its epoch ends."""
    state = kind(Memory()).map("t")
    state.begin(TaskStateStub())
    state.open()
    state.load([("a",)])
    value = [(1, {2}), bytearray(b"x")]
    state.multi_put([("a",)], [value])
    value.append(3)  # type: ignore[arg-type]
    state.keep()
    for _ in range(2):
        found = state.get(("a",))
        assert found == [[1, [2]], b"x"]
        found.append(4)
    with pytest.raises(TypeError, match="'a' cannot be stored"):
        state.multi_put([("a",)], [object()])


class TaskStateStub:
    """An empty state of a task."""

    def get(self, key: str, default: Any = None) -> Any:
        return default

    def range(self, start: str, end: str) -> list[tuple[str, Any]]:
        return []
