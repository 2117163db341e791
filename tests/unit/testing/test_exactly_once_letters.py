"""Permanent failures under exactly once become dead letters of their bolt.

The rest of the message is processed.
"""

import json

from kstorm.core.wire import TupleFrame, decode
from kstorm.testing import LocalCluster
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    OutputFieldsDeclarer,
    TopologyBuilder,
    Tuple,
)
from kstorm.topology.config import EXACTLY_ONCE
from tests.sim.exactly_once.components import End, Messages

_LIMIT = 16_384


class Twice(BasicBolt):
    """Emits each number twice, the second time with a changed value."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id", "value")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emits a small tuple, and one that exceeds the record limit for number 3."""
        collector.emit((tuple["id"], "first"))
        collector.emit((tuple["id"], "x" * (_LIMIT if tuple["id"] == 3 else 1)))


class Fussy(BasicBolt):
    """Always raises on the second value of 2, after emitting it."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id", "value")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emits its input."""
        collector.emit(tuple.values)
        if tuple.values == (2, "x"):
            raise ValueError("never")


def _cluster() -> LocalCluster:
    config = Config(
        topology_processing_guarantee=EXACTLY_ONCE,
        topology_bolt_retry_limit=2,
        topology_frame_max_bytes=_LIMIT,
    )
    builder = TopologyBuilder("letters", config)
    builder.set_spout("messages", Messages([[1, 2, 3, 4]]))
    builder.set_bolt("twice", Twice()).shuffle_grouping("messages")
    builder.set_bolt("fussy", Fussy()).shuffle_grouping("twice")
    builder.set_bolt("end", End()).shuffle_grouping("fussy")
    return LocalCluster(builder.build(), 7)


def test_permanent_failure_is_a_dead_letter_and_its_message_continues() -> None:
    """There is one letter of the bolt that gave up, and one of the bolt whose emit exceeds a record.

    Each has its tuple's place.
    """
    with _cluster() as cluster:
        cluster.run_for(30)
        frames = [decode(TupleFrame, value) for value in cluster.sent("letters.end")]
        arrived = sorted(row for frame in frames for row in zip(*frame.columns, strict=True))
        assert arrived == [(1, "first"), (1, "x"), (2, "first"), (4, "first"), (4, "x")]
        gave_up, too_large = sorted(cluster.dead_letters, key=lambda letter: str(letter.component))
        assert (gave_up.component, gave_up.topic, gave_up.attempts) == ("fussy", "letters.fussy", 3)
        assert "failed 3 times: ValueError: never" in gave_up.reason
        assert json.loads(gave_up.value or b"")["values"] == {"id": 2, "value": "x"}
        assert gave_up.row == json.loads(gave_up.value or b"")["row"]
        assert (gave_up.kind, [len(root) for root in gave_up.roots]) == ("failed", [16])
        assert gave_up.error is not None
        assert (gave_up.error.type, gave_up.error.message) == ("ValueError", "never")
        assert (gave_up.error.component, gave_up.error.task) == ("fussy", gave_up.task)
        assert gave_up.error.where.startswith("test_exactly_once_letters.py:")
        assert (too_large.kind, too_large.attempts, len(too_large.roots)) == ("too_large", 1, 1)
        assert (too_large.component, too_large.topic) == ("twice", "letters.twice")
        assert too_large.error is not None
        assert too_large.error.where.startswith("test_exactly_once_letters.py:")
        assert f"the limit is {_LIMIT:,}" in too_large.reason
        assert (cluster.pending, cluster.open_trees, cluster.unsettled) == (0, 0, 0)
