"""Collects what the tasks of one process send, and packs it into frames.

Tuples are kept per (stream, receiving task), acks XOR-folded per root over all tasks of the process, so that a batch of
input frames leaves as few, full records. `drain_tuples` and `drain_acks` are apart because a stateful bolt's results
may leave at once, while its acks wait until its state is durable.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from kstorm.core.dead_letters import LetterToStore
from kstorm.core.wire import VERSION, AckFrame, CompletionFrame, TupleFrame, encode, pack_ids
from kstorm.errors import TupleTooLargeError
from kstorm.topology import Topology


class Outgoing(Struct, frozen=True):
    """One record to produce."""

    topic: str
    partition: int
    value: bytes


class TooLarge(Struct, frozen=True):
    """A tuple that no record can hold; its trees were failed."""

    component: str
    task: int
    stream: str
    size: int
    limit: int
    reason: str

    def error(self) -> TupleTooLargeError:
        """What to tell the user."""
        return TupleTooLargeError(
            f"a tuple of {self.component!r} on the stream {self.stream!r} ({self.size:,} bytes encoded, the limit is "
            f"{self.limit:,}) {self.reason}: its trees were failed"
        )


class Lane:
    """Tuples on their way from one task's stream to one receiving task."""

    __slots__ = ("component", "edges", "more", "partition", "roots", "rows", "stream", "targets", "task", "topic")

    def __init__(self, component: str, task: int, stream: str, topic: str, partition: int, target: int) -> None:
        self.component, self.task, self.stream = component, task, stream
        self.topic, self.partition = topic, partition
        self.targets = (target,)
        """Topology-wide id of the receiving task, as `emit` returns it."""
        self.rows: list[Any] = []
        self.roots: list[int] = []
        self.edges: list[int] = []
        self.more: dict[int, dict[int, int]] = {}


class Outbox:
    """The sends of one process, until they are drained."""

    def __init__(self, topology: Topology) -> None:
        self.ackers = topology.config.acker_tasks
        self._acker_topic = topology.acker_topic
        self._max_tuples = topology.config.topology_frame_max_tuples
        self._max_bytes = topology.config.topology_frame_max_bytes
        self._lanes: list[Lane] = []
        self.acks: dict[int, int] = {}
        """Root → XOR since the last drain."""
        self.fails: set[int] = set()
        self.resets: set[int] = set()
        self.inits: dict[int, list[tuple[int, int]]] = {}
        """Spout task → (root, XOR of its first edges)."""
        self.letters: list[LetterToStore] = []
        self.too_large: list[TooLarge] = []
        """What had to be failed for its size since the caller last looked."""

    def lane(self, component: str, task: int, stream: str, topic: str, partition: int, target: int) -> Lane:
        """A new lane; it lives as long as its task."""
        lane = Lane(component, task, stream, topic, partition, target)
        self._lanes.append(lane)
        return lane

    def forget(self, task: int) -> None:
        """Drops the lanes of a task that left this process, with whatever they hold."""
        self._lanes = [lane for lane in self._lanes if lane.task != task]

    def init(self, spout_task: int, root: int, val: int) -> None:
        """A tree begins."""
        self.inits.setdefault(spout_task, []).append((root, val))

    def drain_tuples(self) -> list[Outgoing]:
        """The tuple frames collected since the last call."""
        sends: list[Outgoing] = []
        for lane in self._lanes:
            if lane.rows:
                sends.extend(self._frames(lane))
        return sends

    def drain_acks(self) -> list[Outgoing]:
        """The ack frames collected since the last call: one per acker task, and one more per spout task with inits."""
        if not self.ackers:
            self.fails.clear()
            return []
        if not (self.acks or self.inits or self.fails or self.resets):
            return []
        sends = [send for task, inits in self.inits.items() for send in self._init_frames(task, inits)]
        self.inits = {}
        sends.extend(self._ack_frames())
        return sends

    def _init_frames(self, task: int, inits: list[tuple[int, int]]) -> Iterator[Outgoing]:
        shares: list[tuple[list[int], list[int]]] = [([], []) for _ in range(self.ackers)]
        for root, val in inits:
            roots, vals = shares[root % self.ackers]
            roots.append(root)
            vals.append(val)
        for acker, (roots, vals) in enumerate(shares):
            for at in range(0, len(roots), _MAX_ROWS):
                part = slice(at, at + _MAX_ROWS)
                yield self._to_acker(
                    acker, AckFrame(VERSION, task, init_roots=pack_ids(roots[part]), init_vals=pack_ids(vals[part]))
                )

    def _ack_frames(self) -> Iterator[Outgoing]:
        n = self.ackers
        shares: list[tuple[list[int], list[int]]] = [([], []) for _ in range(n)]
        for root, val in self.acks.items():
            if val:
                roots, vals = shares[root % n]
                roots.append(root)
                vals.append(val)
        failed = _by_acker(self.fails, n)
        reset = _by_acker(self.resets, n)
        self.acks, self.fails, self.resets = {}, set(), set()
        for acker, (roots, vals) in enumerate(shares):
            for at in range(0, max(len(roots), len(failed[acker]), len(reset[acker])), _MAX_ROWS):
                part = slice(at, at + _MAX_ROWS)
                yield self._to_acker(
                    acker,
                    AckFrame(
                        VERSION,
                        0,
                        roots=pack_ids(roots[part]),
                        vals=pack_ids(vals[part]),
                        failed=pack_ids(failed[acker][part]),
                        reset=pack_ids(reset[acker][part]),
                    ),
                )

    def _to_acker(self, acker: int, frame: AckFrame) -> Outgoing:
        return Outgoing(self._acker_topic, acker, encode(frame))

    def _frames(self, lane: Lane) -> Iterator[Outgoing]:
        rows, roots, edges, more = lane.rows, lane.roots, lane.edges, lane.more
        lane.rows, lane.roots, lane.edges, lane.more = [], [], [], {}
        for at in range(0, len(rows), self._max_tuples):
            to = at + self._max_tuples
            part = {position - at: pairs for position, pairs in more.items() if at <= position < to}
            yield from self._sized(lane, rows[at:to], roots[at:to], edges[at:to], part)

    def _sized(
        self, lane: Lane, rows: list[Any], roots: list[int], edges: list[int], more: dict[int, dict[int, int]]
    ) -> Iterator[Outgoing]:
        """One frame, or two halves of it, and so on, until each fits into a record."""
        tracked = any(roots)
        try:
            value = encode(
                TupleFrame(
                    VERSION,
                    lane.component,
                    lane.task,
                    lane.stream,
                    len(rows),
                    pack_ids(roots) if tracked else b"",
                    pack_ids(edges) if tracked else b"",
                    more,
                    [list(column) for column in zip(*rows, strict=True)],
                )
            )
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            value, reason = b"", f"cannot be encoded as MessagePack: {error}"
        else:
            if len(value) <= self._max_bytes:
                yield Outgoing(lane.topic, lane.partition, value)
                return
            reason = "is larger than topology_frame_max_bytes"
        if len(rows) > 1:
            half = len(rows) // 2
            low = {position: pairs for position, pairs in more.items() if position < half}
            high = {position - half: pairs for position, pairs in more.items() if position >= half}
            yield from self._sized(lane, rows[:half], roots[:half], edges[:half], low)
            yield from self._sized(lane, rows[half:], roots[half:], edges[half:], high)
            return
        self.fails.update(root for root in (*roots, *more.get(0, ())) if root)
        self.too_large.append(TooLarge(lane.component, lane.task, lane.stream, len(value), self._max_bytes, reason))


class CompletionBox:
    """What the acker tasks of one process tell spout tasks, until it is drained."""

    def __init__(self, topology: Topology) -> None:
        self.places = {
            task: (topology.completions_topic(spout.id), partition)
            for spout in topology.spouts
            for partition, task in enumerate(topology.task_ids(spout.id))
        }
        """Spout task → topic and partition of its completions."""
        self.acked: dict[int, list[int]] = {}
        """Spout task → roots."""
        self.failed: dict[int, list[int]] = {}
        self.reset: dict[int, list[int]] = {}
        self.undeliverable = 0
        """News for tasks that are no spout's: rows from before a change of the topology. They are dropped."""

    def drain(self, acker: int) -> list[Outgoing]:
        """The completion frames collected since the last call."""
        sends: list[Outgoing] = []
        for task in {*self.acked, *self.failed, *self.reset}:
            news = [box.get(task, []) for box in (self.acked, self.failed, self.reset)]
            if task not in self.places:
                self.undeliverable += sum(map(len, news))
                continue
            topic, partition = self.places[task]
            for at in range(0, max(map(len, news)), _MAX_ROWS):
                columns = [pack_ids(roots[at : at + _MAX_ROWS]) for roots in news]
                sends.append(Outgoing(topic, partition, encode(CompletionFrame(VERSION, acker, *columns))))
        self.acked, self.failed, self.reset = {}, {}, {}
        return sends


def _by_acker(roots: set[int], ackers: int) -> list[list[int]]:
    shares: list[list[int]] = [[] for _ in range(ackers)]
    for root in roots:
        shares[root % ackers].append(root)
    return shares


_MAX_ROWS = 20_000  # roots in one record: 320 kB
