"""Records who really acked what, to check the conclusions of `kstorm.operations.trees` from XORs.

Acks are recorded where bolts ack, not computed. A record for an acker is identified by its bytes,
so it is known which acks are in the acker's log, and how often.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import numpy as np

from kstorm.core.outbox import Outbox
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.task_collectors import BoltCollector
from kstorm.core.wire import AckFrame, TupleFrame, decode, unpack_ids
from kstorm.testing.cluster import LocalCluster
from kstorm.topology import Tuple, TupleBatch

Acks = list[tuple[int, int]]
"""Root and edge of acked tuples."""


class Acknowledged:
    """The acks of all clusters that run while it watches."""

    def __init__(self) -> None:
        self._undrained: WeakKeyDictionary[Outbox, Acks] = WeakKeyDictionary()
        self._drained: defaultdict[bytes, Acks] = defaultdict(list)
        """By the value of a record for an acker."""
        self.sent: defaultdict[int, set[int]] = defaultdict(set)
        """The edges of tuples that were sent, by root, whether or not they arrived."""

    def of(self, cluster: LocalCluster, root: int) -> Counter[int]:
        """Count the acks of each edge in the log of the tree's acker."""
        topology = cluster.topology
        log = records_of(cluster, topology.acker_topic, root % topology.config.acker_tasks)
        return Counter(
            edge for _, value in log for of, edge in self._drained.get(value, ()) if of == root
        )

    def note(self, outbox: Outbox, acks: Iterable[tuple[int, int]]) -> None:
        """Record acks, which leave when the outbox is drained next."""
        self._undrained.setdefault(outbox, []).extend(acks)

    def drained(self, outbox: Outbox, sends: list[OutgoingRecord]) -> None:
        """Record that acks leave."""
        acks = self._undrained.pop(outbox, [])
        for send in sends:
            about = set(unpack_ids(decode(AckFrame, send.value).roots))
            if about:
                self._drained[send.value] += [ack for ack in acks if ack[0] in about]

    def drained_tuples(self, sends: list[OutgoingRecord]) -> None:
        """Record that tuples leave."""
        for send in sends:
            frame = decode(TupleFrame, send.value)
            pairs = list(zip(unpack_ids(frame.roots), unpack_ids(frame.edges), strict=True))
            for root, edge in (
                *pairs,
                *(pair for more in frame.more.values() for pair in more.items()),
            ):
                self.sent[root].add(edge)


def records_of(cluster: LocalCluster, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """Return a partition's records with offsets, as a consumer of committed records sees them."""
    logs, place = cluster.processes(cluster.topology.spouts[0].id)[0].world.logs, (topic, partition)
    return logs.committed_records(place, 0, logs.stable_end(place))


@contextmanager
def watch_acks() -> Iterator[Acknowledged]:
    """Record all acks within the block."""
    watched = Acknowledged()
    ack, ack_batch, finish_frame = (
        BoltCollector.ack,
        BoltCollector.ack_batch,
        BoltCollector.finish_frame,
    )
    ack_columns, drain_acks, drain_tuples = (
        Outbox.ack_columns,
        Outbox.drain_acks,
        Outbox.drain_tuples,
    )
    batches: dict[int, TupleBatch] = {}  # by the identity of their roots
    finishing: list[tuple[TupleBatch, list[int]]] = []

    def noted_ack(self: BoltCollector, tuple: Tuple) -> None:
        if not tuple.finished and tuple.root:
            watched.note(self._outbox, [(tuple.root, tuple.edge), *(tuple.more or {}).items()])
        ack(self, tuple)

    def noted_batch(self: BoltCollector, batch: TupleBatch) -> None:
        if batch.roots is not None:
            batches[id(batch.roots)] = batch
        ack_batch(self, batch)

    def noted_frame(self: BoltCollector, batch: TupleBatch, failed: list[int]) -> None:
        finishing.append((batch, failed))
        try:
            finish_frame(self, batch, failed)
        finally:
            finishing.pop()

    def noted_columns(self: Outbox, roots: Any, vals: Any) -> None:
        if finishing:
            batch, failed = finishing[-1]
            watched.note(
                self, _pairs(np.delete(batch.roots, failed), np.delete(batch.edges, failed))
            )
        else:
            batch = batches.pop(id(roots))
            watched.note(self, _pairs(batch.roots, batch.edges))
        ack_columns(self, roots, vals)

    def noted_drain(self: Outbox) -> list[OutgoingRecord]:
        sends = drain_acks(self)
        watched.drained(self, sends)
        return sends

    def noted_tuples(self: Outbox) -> list[OutgoingRecord]:
        sends = drain_tuples(self)
        watched.drained_tuples(sends)
        return sends

    with (
        patch.multiple(
            BoltCollector, ack=noted_ack, ack_batch=noted_batch, finish_frame=noted_frame
        ),
        patch.multiple(
            Outbox, ack_columns=noted_columns, drain_acks=noted_drain, drain_tuples=noted_tuples
        ),
    ):
        yield watched


def _pairs(roots: Any, edges: Any) -> Acks:
    return [pair for pair in zip(roots.tolist(), edges.tolist(), strict=True) if pair[0]]
