"""Task ids, topic names and partition counts, which may not change while tuples are in flight."""

import math
from collections.abc import Callable

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import FeederSpout
from kstorm.topology import (
    Bolt,
    Config,
    Fields,
    OutputFieldsDeclarer,
    Spout,
    StatefulBolt,
    Topology,
    TopologyBuilder,
    TopologyContext,
)


class Words(Spout):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")


class Count(StatefulBolt):
    """A stateful bolt."""


def wordcount(reverse: bool = False, ackers: int = 1) -> Topology:
    builder = TopologyBuilder("wc", Config(topology_acker_executors=ackers))
    wirings: list[Callable[[], object]] = [
        lambda: builder.set_spout("zero", Words(), 2),
        lambda: builder.set_spout("one", Words()),
        lambda: builder.set_bolt("log", Bolt()).shuffle_grouping("one"),
        lambda: (
            builder.set_bolt("count", Count(), 2).set_num_tasks(3).fields_grouping("zero", "word")
        ),
    ]
    for wire in reversed(wirings) if reverse else wirings:
        wire()
    return builder.build()


def test_task_ids_do_not_depend_on_the_order_of_the_wiring() -> None:
    """Spouts come first, then ids in order, from 1 without gaps."""
    for topology in (wordcount(), wordcount(reverse=True)):
        ids = {
            component: list(topology.task_ids(component))
            for component in ("one", "zero", "count", "log")
        }
        assert ids == {"one": [1], "zero": [2, 3], "count": [4, 5, 6], "log": [7]}
        assert topology.total_tasks == 7


def test_a_task_is_found_by_its_id() -> None:
    """`locate_task` is the inverse of `task_ids`."""
    topology = wordcount()
    assert [topology.locate_task(task) for task in (1, 3, 6)] == [
        ("one", 0),
        ("zero", 1),
        ("count", 2),
    ]
    for task in (0, 8, -1):
        with pytest.raises(TopologyError, match=f"no task {task}: its tasks are 1 to 7"):
            topology.locate_task(task)


def test_an_unknown_component() -> None:
    """The message lists the known components."""
    with pytest.raises(
        TopologyError, match="'wc' has no component 'cuont': it has zero, one, log, count"
    ):
        wordcount().task_ids("cuont")


def test_topics_have_one_partition_a_task() -> None:
    """This covers bolts, completions and ackers. Dead letters have one partition.

    Changelogs are separate.
    """
    topology = wordcount()
    assert topology.topics() == {
        "wc.log": 1,
        "wc.count": 3,
        "wc.zero.__completions": 2,
        "wc.one.__completions": 1,
        "wc.__acker": 4,
        "wc.__dead_letters": 1,
        "wc.__events": 1,
    }
    assert topology.changelogs() == {"wc.count.__state": 3, "wc.__acker.__ledger": 4}


def test_spouts_with_positions_have_a_topic_of_what_they_finished() -> None:
    """All of them share one topic with one partition. Spouts of queues have no offsets."""
    builder = TopologyBuilder("t")
    builder.set_spout("lines", FeederSpout("line"), 3)
    topology = builder.build()
    assert topology.topics()["t.__finished"] == 1
    assert topology.finished_topic == "t.__finished"


def test_without_ackers_there_are_no_acker_topics() -> None:
    """Without tracking, these topics are not needed."""
    topology = wordcount(ackers=0)
    assert "wc.__acker" not in topology.topics()
    assert topology.changelogs() == {"wc.count.__state": 3}


def test_the_longest_timeout_of_all_spouts() -> None:
    """Ackers must keep a tree as long as its spout waits for it."""
    builder = TopologyBuilder("t", Config(topology_message_timeout_secs=5))
    builder.set_spout("quick", Words())
    assert builder.build().longest_message_timeout_secs == 5
    builder.set_spout("patient", Words()).add_configurations(topology_message_timeout_secs=300)
    assert builder.build().longest_message_timeout_secs == 300
    builder.set_spout("endless", Words()).add_configurations(topology_enable_message_timeouts=False)
    assert builder.build().longest_message_timeout_secs == math.inf


def test_the_context_of_a_task() -> None:
    """It has its task and the wiring."""
    context = TopologyContext(wordcount(), "zero", 1, {"client": "lent"})
    assert (context.task_id, context.task_index, context.total_tasks) == (3, 1, 2)
    assert list(context.get_component_tasks("count")) == [4, 5, 6]
    assert context.get_component_output_fields("zero") == Fields("word")
    assert context.resources == {"client": "lent"}
