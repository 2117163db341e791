"""The cost of Trident's bolts compared with the same by hand: see `tests.bench.test_micro`."""

from collections import Counter
from typing import Any

import pytest

from kstorm.core.exactly_once.exact_bolt_task import ExactBoltTask
from kstorm.core.exactly_once.undoable_state import UndoableState
from kstorm.core.ids import random_columns, random_ids
from kstorm.core.outbox import Outbox
from kstorm.core.wire import VERSION, TupleFrame
from kstorm.testing import FeederSpout
from kstorm.topology import Config, Fields, Topology, TopologyBuilder, TopologyContext
from kstorm.trident import Count, TridentTopology, kstorm_state
from tests.bench.conftest import WORDS, Measure, N
from tests.bench.corpus import texts
from tests.bench.trident import CountByHand, Split, SplitByHand

EXACT = Config(topology_processing_guarantee="exactly_once")
FRAMES = {
    "few words twice": WORDS,
    "half of them one word": " ".join(texts(N // 9, 0.5)).split()[:N],
}
"""The `N` words of each frame."""


def by_hand() -> Topology:
    builder = TopologyBuilder("bench", EXACT)
    builder.set_spout("spout", FeederSpout("str"))
    builder.set_bolt("split", SplitByHand()).shuffle_grouping("spout")
    builder.set_bolt("count", CountByHand(), 4).fields_grouping("split", Fields("word"))
    return builder.build()


def trident(*, combines: bool) -> Topology:
    topology = TridentTopology("bench", EXACT)
    words = topology.new_stream("spout", FeederSpout("str")).each("str", Split(), "word")
    if not combines:
        words = words.project("word").partition_by("word")
    words.group_by("word").persistent_aggregate(kstorm_state(), Count(), "count").parallelism_hint(
        4
    )
    return topology.build()


TOPOLOGIES = {
    "by hand": by_hand(),
    "Trident": trident(combines=True),
    "Trident, uncombined": trident(combines=False),
}


def run(
    measure: Measure, topology: Topology, component: str, source: str, columns: list[list[Any]]
) -> None:
    """Measure a bolt that executes a frame, including the draining of its output."""
    outbox = Outbox(topology)
    bolt: Any = topology.component(component).component
    task = ExactBoltTask(
        topology, component, 0, bolt, outbox, random_ids(), _raise, random_columns()
    )
    bolt.prepare(task.config, TopologyContext(topology, component, 0))
    if component == "count":
        task.state = UndoableState(lambda key: None, lambda start: ())
        bolt.init_state(task.state)
    sender = topology.task_ids(source)[0]
    frame = TupleFrame(VERSION, source, sender, "default", len(columns[0]), b"", b"", {}, columns)

    def act() -> None:
        for _ in task.receive(frame):
            pass
        outbox.drain_tuples()
        outbox.drain_acks()

    measure(N, act)


@pytest.mark.parametrize("words", FRAMES)
@pytest.mark.parametrize("how", TOPOLOGIES)
def test_split_of_trident(measure: Measure, how: str, words: str) -> None:
    """Split, exactly once: a word."""
    found = FRAMES[words]
    sentences = [" ".join(["7", *found[at : at + 10]]) for at in range(0, N, 10)]
    run(measure, TOPOLOGIES[how], "split", "spout", [sentences])


@pytest.mark.parametrize("words", FRAMES)
@pytest.mark.parametrize("how", TOPOLOGIES)
def test_count_of_trident(measure: Measure, how: str, words: str) -> None:
    """Count in the state, exactly once: a word of the frame, combined before or not."""
    found = FRAMES[words]
    parts = Counter(found)
    columns: list[list[Any]] = [list(parts), list(parts.values())] if how == "Trident" else [found]
    run(measure, TOPOLOGIES[how], "count", "split", columns)


def _raise(error: BaseException, doing: str) -> None:
    raise error
