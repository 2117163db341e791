"""Runs one exactly-once task in isolation."""

from itertools import count
from typing import Any

from kstorm.core.exactly_once import ExactBoltTask, UndoableState
from kstorm.core.exactly_once.unfinished import UnfinishedTuple, read_pair
from kstorm.core.outbox import Outbox
from kstorm.core.outgoing import EpochRecords, OutgoingRecord
from kstorm.core.wire import VERSION, AckFrame, TupleFrame, decode, pack_ids, unpack_ids
from kstorm.topology import BasicBolt, Bolt, Config, TopologyBuilder, TopologyContext
from tests.unit.core.bolt_harness import Words


class ExactHarness:
    """Task 0 of the bolt "bolt".

    Tuple `row` of the frame at `offset` has the root 100 * offset + row + 1, and the same edge.
    """

    def __init__(self, bolt: Bolt | BasicBolt, **settings: Any) -> None:
        builder = TopologyBuilder("t", Config(topology_acker_tasks=1, **settings))
        builder.set_spout("words", Words())
        builder.set_bolt("bolt", bolt).shuffle_grouping("words")
        builder.set_bolt("next", Bolt()).shuffle_grouping("bolt")
        topology = builder.build()
        self.outbox = Outbox(topology)
        self.errors: list[str] = []
        powers = count(20)
        self.task = ExactBoltTask(
            topology,
            "bolt",
            0,
            bolt,
            self.outbox,
            lambda: 1 << next(powers),
            lambda error, doing: self.errors.append(str(error)),
        )
        self.task.state = self.state = UndoableState(lambda key: None, lambda: ())
        bolt.prepare(
            self.task.config,
            TopologyContext(topology, "bolt", 0),
            *((self.task.collector,) if isinstance(bolt, Bolt) else ()),
        )

    def give(self, offset: int, *words: str) -> None:
        """Gives the task a frame of words."""
        for _ in self.task.receive(self.frame(offset, *words), offset):
            pass

    def frame(self, offset: int, *words: str) -> TupleFrame:
        ids = pack_ids([100 * offset + row + 1 for row in range(len(words))])
        return TupleFrame(VERSION, "words", 1, "default", len(words), ids, ids, {}, [list(words)])

    def retry(self, seconds: float) -> None:
        """Moves the clock, and retries due tuples."""
        for _ in self.task.retry(self.task.now + seconds):
            pass

    def left(self) -> dict[int, list[UnfinishedTuple] | None]:
        """Returns the unfinished tuples that a cut writes, by offset. None marks a deleted entry."""
        pairs = self.task.rows.changes()
        return {
            int.from_bytes(key[1:], "big"): None if value is None else read_pair(key, value)[1]
            for key, value in pairs
        }

    def acks(self) -> dict[int, int]:
        """Returns the non-zero XORs per root that the task sent to the ackers."""
        frames = [decode(AckFrame, send.value) for send in self.outbox.drain_acks()]
        return {
            root: val
            for frame in frames
            for root, val in zip(unpack_ids(frame.roots), unpack_ids(frame.vals), strict=True)
        }

    def sent(self) -> list[tuple[Any, int, int]]:
        """Returns the sent tuples: word, root and edge."""
        return [(word, *pair) for word, pairs in self.sent_with_trees() for pair in pairs.items()]

    def sent_with_trees(self) -> list[tuple[Any, dict[int, int]]]:
        """Returns the sent tuples: word, and edge by root."""
        tuples: list[tuple[Any, dict[int, int]]] = []
        for send in self.outbox.drain_tuples():
            frame = decode(TupleFrame, send.value)
            ids = zip(unpack_ids(frame.roots), unpack_ids(frame.edges), strict=True)
            for row, (word, (root, edge)) in enumerate(zip(frame.columns[0], ids, strict=True)):
                tuples.append((word, {root: edge, **frame.more.get(row, {})}))
        return tuples

    def written(self) -> list[OutgoingRecord]:
        records, self.outbox.records = list(EpochRecords(self.outbox.records)), []
        return records
