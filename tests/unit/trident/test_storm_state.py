"""Storm's "Trident State", in its order: each of its examples, with its own numbers."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from kstorm.errors import StorageError, TopologyError
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.topology import Config, Fields, TopologyContext
from kstorm.trident import (
    Average,
    Count,
    OpaqueMap,
    QueryFunction,
    SnapshotGet,
    State,
    StateFactory,
    StateUpdater,
    TransactionalMap,
    TridentCollector,
    TridentTopology,
    TridentTuple,
    TupleCollectionGet,
    kstorm_state,
)
from kstorm.trident.state import ResultMap
from tests.unit.trident.streams import Split, feed
from tests.unit.trident.test_outside import Memory
from tests.unit.trident.test_outside import State as OwnState

# "Transactional spouts": the database during and after epoch 3.


def test_partly_written_epoch_gives_the_same_result() -> None:
    """The page's `man`, `dog` and `apple`: the row of `dog` already has epoch 3.

    Storm skips it, because the batch is the same. Here the changelog has the values of epoch 3, and
    both rows are written, `dog` unchanged.
    """
    memory = Memory()
    memory.rows = {"man": [1, 3], "dog": [3, 4], "apple": [2, 10]}
    state: Any = OwnState({"x/txid": 3, "x/p/man": [3, 5], "x/p/dog": [3, 4]})
    found = TransactionalMap(memory).map("count/0")
    found.begin(state)
    found.open()
    assert memory.rows == {"man": [3, 5], "dog": [3, 4], "apple": [2, 10]}


# "Opaque transactional spouts": a batch of 2, upon { value = 4, prevValue = 1, txid = 2 }.


@pytest.mark.parametrize(
    ("txid", "stored"),
    [
        pytest.param(3, [3, [6], [4]], id="the-next"),
        pytest.param(2, [2, [3], [1]], id="the-same-again"),
    ],
)
def test_an_opaque_value(txid: int, stored: list[Any]) -> None:
    """A new epoch starts from the value, and a repeated one from the previous value."""
    memory = Memory()
    memory.rows = {"a": [2, [4], [1]]}
    state: Any = OwnState({"x/txid": txid - 1})
    found = OpaqueMap(memory).map("count/0")
    found.begin(state)
    found.open()
    found.load([["a"]])
    found.multi_put([["a"]], [found.get(["a"]) + 2])
    found.keep()
    found.write(found.before_commit())
    assert memory.rows == {"a": stored}


# "State APIs".


class Locations:
    """A user's own database, outside of all processes."""

    def __init__(self) -> None:
        self.rows: dict[int, str] = {}
        self.calls = Counter[str]()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Locations":
        return self


class LocationDB(State):
    def __init__(self, database: Locations) -> None:
        self._database = database

    def set_locations_bulk(self, ids: Sequence[int], locations: Sequence[str]) -> None:
        self._database.calls["set"] += 1
        self._database.rows |= zip(ids, locations, strict=True)

    def bulk_get_locations(self, ids: Sequence[int]) -> list[str | None]:
        self._database.calls["get"] += 1
        return [self._database.rows.get(id) for id in ids]


class LocationDBFactory(StateFactory):
    def __init__(self, database: Locations) -> None:
        self._database = database

    def make_state(self, config: Config, context: TopologyContext) -> State:
        return LocationDB(self._database)


class QueryLocation(QueryFunction):
    def batch_retrieve(self, state: LocationDB, tuples: Sequence[TridentTuple]) -> Sequence[Any]:
        return state.bulk_get_locations([tuple[0] for tuple in tuples])

    def execute(self, tuple: TridentTuple, result: Any, collector: TridentCollector) -> None:
        collector.emit([result])


class LocationUpdater(StateUpdater):
    def update_state(
        self, state: LocationDB, tuples: Sequence[TridentTuple], collector: TridentCollector
    ) -> None:
        state.set_locations_bulk([tuple[0] for tuple in tuples], [tuple[1] for tuple in tuples])


def test_locations() -> None:
    """One stream updates them. Another queries a static state of the same database."""
    database = Locations()
    topology = TridentTopology("locations")
    factory = LocationDBFactory(database)
    stream = topology.new_stream("locations", FeederSpout("userid", "location"))
    stream.partition_persist(factory, Fields("userid", "location"), LocationUpdater())
    asked = topology.new_stream("myspout", FeederSpout("userid"))
    locations = topology.new_static_state(factory)
    asked.state_query(locations, Fields("userid"), QueryLocation(), Fields("location")).name("out")
    with LocalCluster(topology.build()) as cluster:
        feed(cluster, "locations", *([number, f"at {number}"] for number in range(30)))
        feed(cluster, "myspout", *([number] for number in (3, 40)))
        assert cluster.emitted("out") == [[3, "at 3"], [40, None]]
    assert database.rows == {number: f"at {number}" for number in range(30)}
    assert database.calls["set"] < 30, "an epoch's tuples come together"


# "persistentAggregate": `MapState` and `Snapshottable`.


def all_of_it(number: Any = Count) -> Any:
    """Builds a count of all tuples and one by word. Another stream queries both."""
    topology = TridentTopology("t")
    words = (
        topology.new_stream("in", FeederSpout("sentence"))
        .each("sentence", Split(), "word")
        .name("words")
    )
    total = (
        words.persistent_aggregate(kstorm_state(), Count(), "total")
        .name("total")
        .parallelism_hint(3)
    )
    counts = (
        words.group_by("word")
        .persistent_aggregate(kstorm_state(), number(), "count")
        .name("counts")
        .parallelism_hint(3)
    )
    asked = topology.new_stream("asked", FeederSpout("id"))
    asked.state_query(total, (), SnapshotGet(), "total").map(lambda *row: row).name("totals")
    everything = asked.broadcast().state_query(
        counts, (), TupleCollectionGet(), Fields("word", "count")
    )
    everything.map(lambda *row: row).name("all")
    return topology.build()


def test_state_without_groups_has_one_value() -> None:
    """This is Storm's `SnapshotGet`, for any number of tasks."""
    with LocalCluster(all_of_it()) as cluster:
        feed(cluster, "asked", *([number] for number in range(5)))
        feed(cluster, "in", ["the cow the"])
        feed(cluster, "asked", *([number] for number in range(5, 10)))
        assert sorted(cluster.emitted("totals")) == [
            [number, None if number < 5 else 3] for number in range(10)
        ]


def test_all_entries_of_a_state_can_be_queried() -> None:
    """This is Storm's `TupleCollectionGet`: each task returns its part."""
    with LocalCluster(all_of_it()) as cluster:
        feed(cluster, "in", ["the cow jumped over the moon"])
        feed(cluster, "asked", [1])
        assert sorted(cluster.emitted("all")) == [
            [1, "cow", 1],
            [1, "jumped", 1],
            [1, "moon", 1],
            [1, "over", 1],
            [1, "the", 2],
        ]


class Length(Average):
    def init(self, tuple: TridentTuple) -> list[Any]:
        return [len(tuple["word"]), 1]


def test_state_query_returns_results() -> None:
    with LocalCluster(all_of_it(Length)) as cluster:
        feed(cluster, "in", ["the cow the"])
        feed(cluster, "asked", [1])
        assert sorted(cluster.emitted("all")) == [[1, "cow", 3.0], [1, "the", 3.0]]


def test_database_state_cannot_list_its_keys() -> None:
    """The database cannot assign keys to tasks."""
    topology = TridentTopology("t")
    words = topology.new_stream("in", FeederSpout("word"))
    counts = words.group_by("word").persistent_aggregate(OpaqueMap(Memory()), Count(), "count")
    asked = topology.new_stream("asked", FeederSpout("id")).broadcast()
    asked.state_query(counts, (), TupleCollectionGet(), Fields("word", "count")).name("all")
    with pytest.raises(
        StorageError, match="a state in a database does not list"
    ):  # for user-defined queries
        ResultMap(OpaqueMap(Memory()).map("count/0"), str).get_tuples()
    with pytest.raises(
        TopologyError,
        match=r"test_storm_state.py:\d+: .*TupleCollectionGet cannot query a state in a database",
    ):
        topology.build()
