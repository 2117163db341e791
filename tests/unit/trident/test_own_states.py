"""States of a user's own class, and joins of streams."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from kstorm.errors import FencedError, TopologyError
from kstorm.testing import FeederSpout, LocalCluster, complete_topology, simulate
from kstorm.topology import Config, Topology, TopologyContext
from kstorm.trident import (
    QueryFunction,
    State,
    StateFactory,
    StateUpdater,
    TridentCollector,
    TridentTopology,
    TridentTuple,
)
from tests.unit.trident.streams import came_out, wired


class Ledger:
    """Outside of all processes: the last epoch by task, and the totals before and after it."""

    def __init__(self) -> None:
        self.parts: dict[int, tuple[int, Counter[str], Counter[str]]] = {}
        self.lives = Counter[int]()
        self.again = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> "Ledger":
        return self

    def total(self) -> Counter[str]:
        """Returns the totals of all tasks."""
        return sum((after for _, _, after in self.parts.values()), Counter())


class Totals(State):
    """An opaque state, as a user would write it."""

    def __init__(self, ledger: Ledger, task: int) -> None:
        self._ledger, self._task = ledger, task
        self.changes: Counter[str] = Counter()
        ledger.parts.setdefault(task, (0, Counter(), Counter()))
        ledger.lives[task] += 1
        self._life = ledger.lives[task]

    def begin_commit(self, txid: int) -> None:
        self.changes = Counter()

    def commit(self, txid: int) -> None:
        if self._life != self._ledger.lives[self._task]:
            raise FencedError(
                "it was paused, and another process has begun a life of its task since"
            )
        last, before, after = self._ledger.parts[self._task]
        assert txid in (last, last + 1)
        self._ledger.again += txid == last
        base = before if txid == last else after
        self._ledger.parts[self._task] = txid, base, base + self.changes


class TotalsFactory(StateFactory):
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def make_state(self, config: Config, context: TopologyContext) -> State:
        return Totals(self._ledger, context.task_index)


class Add(StateUpdater):
    def update_state(
        self, state: Totals, tuples: Sequence[TridentTuple], collector: TridentCollector
    ) -> None:
        for tuple in tuples:
            state.changes[tuple["word"]] += 1


WORDS = [f"w{number % 7}" for number in range(40)]


def test_own_state_is_exact_after_crashes() -> None:
    """The state compares epoch numbers. A repeated epoch has the same number."""
    ledgers: list[Ledger] = []

    def build() -> Topology:
        ledgers.append(Ledger())
        topology = TridentTopology("t")
        words = topology.new_stream("in", FeederSpout("word")).partition_by("word")
        words.partition_persist(TotalsFactory(ledgers[-1]), "word", Add()).parallelism_hint(2)
        return topology.build()

    def judge(cluster: LocalCluster) -> None:
        assert ledgers[-1].total() == Counter(WORDS)

    simulate(build, {"in": [[word] for word in WORDS]}, judge, range(8))
    assert sum(ledger.again for ledger in ledgers) > 0, "some epochs came again"


def test_updater_of_an_own_state_cannot_emit() -> None:
    with pytest.raises(TopologyError, match="Add cannot emit"):
        wired(
            "word", do=lambda s: s.partition_persist(TotalsFactory(Ledger()), "word", Add(), "word")
        )
    with pytest.raises(TopologyError, match=r"give kstorm_state\(\), or a StateFactory"):
        wired("word", do=lambda s: s.partition_persist({}, "word", Add()))  # type: ignore[arg-type]


def test_query_of_an_own_state_is_refused() -> None:
    """A query of it is rejected when it is built, and not when a tuple arrives."""
    with pytest.raises(TopologyError, match="only its updater can access"):
        wired(
            "word",
            do=lambda s: s.state_query(
                s.partition_persist(TotalsFactory(Ledger()), "word", Add()), "word", Where(), "n"
            ),
        )


class Cities(State):
    def __init__(self) -> None:
        self.known = {"ann": "Ulm"}


class CitiesFactory(StateFactory):
    def make_state(self, config: Config, context: TopologyContext) -> State:
        return Cities()


class Where(QueryFunction):
    def batch_retrieve(self, state: Cities, tuples: Sequence[TridentTuple]) -> list[str | None]:
        return [state.known.get(tuple["who"]) for tuple in tuples]

    def execute(self, tuple: TridentTuple, result: Any, collector: TridentCollector) -> None:
        if result is not None:
            collector.emit([result])


def test_static_state_is_queried_locally() -> None:
    """This is Storm's `newStaticState`."""
    cities = TridentTopology("t").new_static_state(CitiesFactory())
    found = came_out(
        lambda s: s.state_query(cities, "who", Where(), "city"),
        ["who", "n"],
        [["ann", 1], ["bob", 2]],
    )
    assert found == [["ann", 1, "Ulm"]]
    assert list(
        wired(
            "who", do=lambda s: s.map(lambda who: who).state_query(cities, "who", Where(), "city")
        ).components
    ) == ["in", "map"]


def joined() -> Topology:
    """Builds a join of orders and payments by number."""
    topology = TridentTopology("t")
    orders = topology.new_stream("orders", FeederSpout("id", "who"))
    payments = topology.new_stream("payments", FeederSpout("cents", "order")).filter(
        lambda cents, order: cents > 0
    )
    topology.join(orders, "id", payments, "order", ["id", "who", "cents"]).name(
        "both"
    ).parallelism_hint(2)
    return topology.build()


ORDERS = [[number, f"who{number}"] for number in range(6)]
PAYMENTS = [[10 + number, number % 8] for number in range(16)] + [[0, 1]]
BOTH = sorted(
    [number, f"who{number}", cents]
    for cents, order in PAYMENTS
    for number, _ in ORDERS
    if number == order and cents
)


def test_each_tuple_meets_all_of_the_other_side() -> None:
    """The order of arrival does not matter."""
    result = complete_topology(joined(), {"orders": ORDERS, "payments": PAYMENTS})
    assert sorted(result.emitted("both")) == BOTH


def test_a_join_misses_nothing_whatever_dies() -> None:
    def judge(cluster: LocalCluster) -> None:
        assert sorted(map(list, {tuple(row) for row in cluster.emitted("both")})) == BOTH

    simulate(joined(), {"orders": ORDERS, "payments": PAYMENTS}, judge, range(10))


@pytest.mark.parametrize(
    ("keys", "outputs", "said"),
    [
        (("id", ["order", "cents"]), ["a"], "the keys have 1 and 2 fields"),
        (("id", "order"), ["a", "b"], "2 output fields, but it has 3"),
        (("no", "order"), ["a", "b", "c"], "no field 'no'"),
    ],
)
def test_keys_and_outputs_must_fit(keys: Any, outputs: list[str], said: str) -> None:
    topology = TridentTopology("t")
    orders = topology.new_stream("orders", FeederSpout("id", "who"))
    payments = topology.new_stream("payments", FeederSpout("order", "cents"))
    topology.join(orders, keys[0], payments, keys[1], outputs)
    with pytest.raises(TopologyError, match=said):
        topology.build()
