"""Storm's Trident tutorial, in its order: each of its examples."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kstorm.testing import FeederSpout, LocalCluster, complete_topology
from kstorm.topology import Config, Fields, Topology, TopologyContext
from kstorm.trident import (
    Aggregator,
    CombinerAggregator,
    Count,
    Filter,
    FilterNull,
    Function,
    MapGet,
    ReducerAggregator,
    State,
    StateFactory,
    Sum,
    TridentCollector,
    TridentTopology,
    TridentTuple,
    kstorm_state,
)
from tests.unit.trident.streams import Rows, Split, came_out, feed, last_by_key, of_partition

SENTENCES = [
    "the cow jumped over the moon",
    "the man went to the store and bought some candy",
    "four score and seven years ago",
    "how many apples can you eat",
]
COUNTS = Counter(word for sentence in SENTENCES for word in sentence.split())


# "Illustrative example".


class SumOfAll(ReducerAggregator):
    """The sum of a query's counts, and the number of words in it."""

    def init(self) -> list[int]:
        return [0, 0]

    def reduce(self, current: list[int], tuple: TridentTuple) -> list[int]:
        total, words = current
        return [total + (tuple["count"] or 0), words + 1]


def words() -> Topology:
    """Builds the counts of words, and their sum for a list of words.

    Storm's second stream is DRPC, where each request is a batch. Here it is a topic of queries. The
    answer is a state by query, and is complete when it has all words of the query.
    """
    topology = TridentTopology("words")
    counts = (
        topology.new_stream("spout1", FeederSpout("sentence"))
        .each(Fields("sentence"), Split(), Fields("word"))
        .group_by(Fields("word"))
        .persistent_aggregate(kstorm_state(), Count(), Fields("count"))
        .parallelism_hint(6)
        .name("counts")
    )
    (
        topology.new_stream("words", FeederSpout("id", "args"))
        .each(
            Fields("args"),
            lambda args: [(word, len(args.split())) for word in args.split()],
            Fields("word", "of"),
        )
        .group_by(Fields("word"))
        .state_query(counts, Fields("word"), MapGet(), Fields("count"))
        .group_by(Fields("id", "of"))
        .persistent_aggregate(kstorm_state(), Fields("count"), SumOfAll(), Fields("sum"))
        .new_values_stream()
        .each(Fields("sum", "of"), lambda sum, of: sum[1] == of)
        .map(lambda id, of, sum: (id, sum[0]), Fields("id", "sum"))
        .name("answers")
    )
    return topology.build()


def test_the_count_of_words_and_the_sum_of_some_of_them() -> None:
    with LocalCluster(words()) as cluster:
        feed(cluster, "spout1", *([sentence] for sentence in SENTENCES * 3))
        assert {
            word: max(n for w, n in cluster.emitted("counts") if w == word) for word in COUNTS
        } == Counter({word: 3 * count for word, count in COUNTS.items()})
        feed(cluster, "words", [1, "cat dog the man"], [2, "cow"], [3, "cat"])
        assert sorted(cluster.emitted("answers")) == [[1, 3 * 4 + 3], [2, 3], [3, 0]]


def test_words_without_a_count_are_left_out() -> None:
    """The tutorial uses `FilterNull` and `Sum`. Each batch adds its part of a query's sum."""

    def do(stream: Any) -> Any:
        return stream.each(Fields("count"), FilterNull()).partition_aggregate(
            Fields("count"), Sum(), Fields("sum")
        )

    asked: Rows = [["cat", None], ["the", 4], ["man", 1]]
    assert of_partition(do, ["word", "count"], asked) == [[5]]


def test_reads_of_a_batch_are_one_and_so_are_writes() -> None:
    """The tutorial's "20 updates": one query reads all keys, and the epoch makes one write."""
    questions: list[int] = []

    class Database(State):
        def multi_get(self, keys: Sequence[Sequence[Any]]) -> list[Any]:
            questions.append(len(keys))
            return [None for _ in keys]

    class Databases(StateFactory):
        def make_state(self, config: Config, context: TopologyContext) -> State:
            return Database()

    topology = TridentTopology("t")
    stream = topology.new_stream("in", FeederSpout("word")).state_query(
        Databases(), "word", MapGet(), "n"
    )
    stream.name("out")
    complete_topology(topology.build(), {"in": [[str(number)] for number in range(20)]})
    assert sum(questions) == 20
    assert max(questions) > 1


# "Reach".

TWEETERS = {"foo.com/blog/1": ["sally", "bob", "tim"], "engineering.com/blog/5": ["adam", "sally"]}
FOLLOWERS = {
    "sally": ["bob", "tim", "alice"],
    "bob": ["sally", "nathan", "jim", "tim"],
    "tim": ["alex"],
    "adam": ["vivian"],
}
REACH = {
    url: len({follower for tweeter in tweeters for follower in FOLLOWERS[tweeter]})
    for url, tweeters in TWEETERS.items()
} | {"nobody.com": 0}


class SingleKey(State):
    """A user's own database."""

    def __init__(self, rows: dict[str, list[str]]) -> None:
        self._rows = rows

    def multi_get(self, keys: Sequence[Sequence[Any]]) -> list[Any]:
        return [self._rows.get(key) for (key,) in keys]


class SingleKeyFactory(StateFactory):
    def __init__(self, rows: dict[str, list[str]]) -> None:
        self._rows = rows

    def make_state(self, config: Config, context: TopologyContext) -> State:
        return SingleKey(self._rows)


class ExpandList(Function):
    """Emits a tuple per list element."""

    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        for each in tuple[0] or ():
            collector.emit([each])


class One(CombinerAggregator):
    """Returns 1 for any number of tuples."""

    def init(self, tuple: TridentTuple) -> int:
        return 1

    def combine(self, one: int, other: int) -> int:
        return 1

    def zero(self) -> int:
        return 1


class OnceMore(ReducerAggregator):
    """Counts distinct values one by one."""

    def init(self) -> list[str]:
        return []

    def reduce(self, current: list[str], tuple: TridentTuple) -> list[str]:
        return current if tuple[0] in current else [*current, tuple[0]]


def test_reach() -> None:
    """The query is spread over tasks, as in the tutorial.

    The request is a field of the stream, because no batch ends with a request. The reach grows until
    it is complete, which is its last value.
    """
    topology = TridentTopology("reach")
    urls_to_tweeters = topology.new_static_state(SingleKeyFactory(TWEETERS))
    tweeters_to_followers = topology.new_static_state(SingleKeyFactory(FOLLOWERS))
    (
        topology.new_stream("reach", FeederSpout("args"))
        .state_query(urls_to_tweeters, Fields("args"), MapGet(), Fields("tweeters"))
        .each(Fields("tweeters"), ExpandList(), Fields("tweeter"))
        .shuffle()
        .state_query(tweeters_to_followers, Fields("tweeter"), MapGet(), Fields("followers"))
        .parallelism_hint(4)
        .each(Fields("followers"), ExpandList(), Fields("follower"))
        .group_by(Fields("args", "follower"))
        .aggregate(One(), Fields("one"))
        .parallelism_hint(2)
        .group_by(Fields("args"))
        .persistent_aggregate(kstorm_state(), Fields("follower"), OnceMore(), Fields("reached"))
        .new_values_stream()
        .map(lambda args, reached: (args, len(reached)), Fields("args", "reach"))
        .name("out")
    )
    result = complete_topology(topology.build(), {"reach": [[url] for url in REACH]})
    assert last_by_key(sorted(result.emitted("out"))) | {"nobody.com": 0} == REACH


class DistinctByRequest(Aggregator):
    """Counts the distinct followers per request of a batch."""

    def init(self, batch_id: Any, collector: TridentCollector) -> dict[str, set[str]]:
        return {}

    def aggregate(
        self, value: dict[str, set[str]], tuple: TridentTuple, collector: TridentCollector
    ) -> None:
        value.setdefault(tuple["args"], set()).update(tuple["followers"] or ())

    def complete(self, value: dict[str, set[str]], collector: TridentCollector) -> None:
        for url, followers in value.items():
            collector.emit([url, len(followers)])


def test_reach_in_one_task() -> None:
    """Without repartitioning, a request stays in its batch, and its single answer is complete."""
    topology = TridentTopology("reach")
    (
        topology.new_stream("reach", FeederSpout("args"))
        .state_query(SingleKeyFactory(TWEETERS), "args", MapGet(), "tweeters")
        .each("tweeters", lambda tweeters: tweeters or [""], "tweeter")
        .state_query(SingleKeyFactory(FOLLOWERS), "tweeter", MapGet(), "followers")
        .partition_aggregate(
            Fields("args", "followers"), DistinctByRequest(), Fields("args", "reach")
        )
        .parallelism_hint(3)
        .name("out")
    )
    result = complete_topology(topology.build(), {"reach": [[url] for url in REACH]})
    assert sorted(result.emitted("out")) == sorted([url, reach] for url, reach in REACH.items())


# "Fields and tuples".


class MyFilter(Filter):
    def is_keep(self, tuple: TridentTuple) -> bool:
        assert len(tuple) == 1, "only the field that was named"
        return bool(tuple[0] < 10)


class AddAndMultiply(Function):
    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        one, other = tuple
        collector.emit([one + other, one * other])


def test_a_filter_is_given_the_field_that_was_named() -> None:
    rows = [[1, 9, 3], [1, 10, 3]]
    assert came_out(lambda s: s.each(Fields("y"), MyFilter()), ["x", "y", "z"], rows) == [[1, 9, 3]]


def test_the_output_of_functions_is_additive() -> None:
    found = came_out(
        lambda s: s.each(Fields("x", "y"), AddAndMultiply(), Fields("added", "multiplied")),
        ["x", "y", "z"],
        [[3, 4, 5]],
    )
    assert found == [[3, 4, 5, 7, 12]]


def test_the_fields_of_aggregators_take_the_place_of_tuples() -> None:
    rows = [["a", 1], ["b", 2], ["a", 3]]
    found = came_out(
        lambda s: s.aggregate(Fields("val2"), Sum(), Fields("sum")), ["val1", "val2"], rows
    )
    assert sum(total for (total,) in found) == 6
    grouped = came_out(
        lambda s: s.group_by(Fields("val1")).aggregate(Fields("val2"), Sum(), Fields("sum")),
        ["val1", "val2"],
        rows,
    )
    assert sum(total for key, total in grouped if key == "a") == 4


# "State" is in test_storm_state.py. "Execution of Trident topologies".
