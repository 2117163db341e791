"""The hooks of a stateful bolt's checkpoint: `pre_prepare`, `pre_commit`, `pre_rollback`."""

from typing import Any, ClassVar

import pytest

from kstorm.core.engine import BoltEngine
from kstorm.core.engine.effects import ApplyToStore, Send, Transact
from kstorm.core.task_state import TaskState
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.topology import (
    BasicOutputCollector,
    Config,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.unit.core.engines import Driven, Journal, exact_bolt_engine, frame
from tests.unit.core.epoch_harness import Words, answer
from tests.unit.core.test_bolt_engine import Count, driven, topology


class Hooked(Count):
    """Records its hooks, and writes its gathered words in `pre_prepare`."""

    steps: ClassVar[list[str]] = []

    def init_state(self, state: Any) -> None:
        self.steps.append("init_state")
        super().init_state(state)

    async def pre_prepare(self, checkpoint_id: int) -> None:
        self.steps.append(f"pre_prepare {checkpoint_id}")
        self.state.put("gathered", checkpoint_id)

    def pre_commit(self, checkpoint_id: int) -> None:
        self.steps.append(f"pre_commit {checkpoint_id}")

    def pre_rollback(self) -> None:
        self.steps.append("pre_rollback")


def test_bolt_hooks_are_part_of_the_checkpoint() -> None:
    """The puts of `pre_prepare` are in the transaction.

    `pre_commit` runs after it and before the acks.
    """
    Hooked.steps = []
    bolt = driven(Hooked())
    bolt.assign(t0=7)
    bolt.poll(0, frame(7, "a"))
    bolt.deliver()
    bolt.effects.clear()
    bolt.tick(1)
    (transact,) = bolt.take(Transact)
    assert dict(transact.changes[0])[b"gathered"] == b"\x01"
    assert Hooked.steps == ["init_state", "pre_prepare 1"]
    bolt.do(bolt.engine.committed(transact, {0: 0}, bolt.now))
    assert Hooked.steps == ["init_state", "pre_prepare 1", "pre_commit 1"]
    assert [type(effect) for effect in bolt.effects] == [ApplyToStore, Send]


@pytest.mark.parametrize(
    ("stored", "steps"), [({}, ["init_state"]), ({b"a": b"\x01"}, ["pre_rollback", "init_state"])]
)
def test_pre_rollback_precedes_restored_state(stored: dict[bytes, bytes], steps: list[str]) -> None:
    """The hook is called before the state is initialized, if state exists."""
    Hooked.steps = []
    engine = BoltEngine(
        topology(Hooked()),
        "bolt",
        Journal(),
        next_id=lambda: 1,
        load_state=lambda task: TaskState(stored.get, lambda start: stored.items()),
    )
    Driven(engine).assign(t0=0)
    assert Hooked.steps == steps


class Gathers(StatefulBasicBolt):
    """Gathers words in memory, and writes them in `pre_commit`."""

    written: ClassVar[list[tuple[str, ...]]] = []

    def prepare(self, config: Config, context: TopologyContext) -> None:
        super().prepare(config, context)
        self.gathered: list[str] = []

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if not tuple.is_tick:
            self.gathered.append(tuple["word"])

    def pre_commit(self, checkpoint_id: int) -> None:
        self.written.append((str(checkpoint_id), *self.gathered))
        self.gathered = []


def test_pre_commit_runs_before_acks_leave_though_the_state_has_not_changed() -> None:
    """Otherwise the bolt loses what it has gathered of acked tuples."""
    Gathers.written = []
    bolt = driven(Gathers())
    bolt.assign(t0=0)
    bolt.tick(1)
    assert Gathers.written == []  # nothing waits for it
    bolt.poll(0, frame(0, "a", "b"))
    bolt.tick(1)
    assert Gathers.written == [("2", "a", "b")]
    assert bolt.take(Transact) == []
    (acks,) = bolt.take(Send)
    assert {record.topic for record in acks.records} == {"t.__acker"}


def test_pre_commit_runs_after_each_epoch() -> None:
    """It gets the number of the checkpoint, also if the bolt overrides no other hook."""
    Gathers.written = []
    builder = TopologyBuilder(
        "t", Config(topology_processing_guarantee=EXACTLY_ONCE, topology_acker_tasks=1)
    )
    builder.set_spout("words", Words())
    builder.set_bolt("bolt", Gathers()).shuffle_grouping("words")
    made = Driven(exact_bolt_engine(builder.build(), "bolt", ()))
    made.assign(t0=0)
    for offset, word in enumerate("ab"):
        made.poll(0, frame(offset, word))
        made.tick(1)
        (transact,) = made.take(Transact)
        assert transact.changes == {}
        assert len(Gathers.written) == offset
        answer(made, transact)
    assert Gathers.written == [("1", "a"), ("2", "b")]


@pytest.mark.parametrize("guarantee", [AT_LEAST_ONCE, EXACTLY_ONCE])
def test_gathered_words_are_written_in_a_cluster(guarantee: str) -> None:
    """Five messages are acked, and five are written."""
    Gathers.written = []
    feeder = FeederSpout("word")
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=guarantee))
    builder.set_spout("words", feeder)
    builder.set_bolt("bolt", Gathers()).shuffle_grouping("words")
    with LocalCluster(builder.build()) as cluster:
        for number, word in enumerate("abcde"):
            feeder.feed([word], number)
        cluster.run_until_idle()
        assert sorted(cluster.acked("words")) == [0, 1, 2, 3, 4]
    words = [word for _, *some in Gathers.written for word in some]
    assert sorted(words) == list("abcde")
