"""Collects the tuples of one process's tasks and packs them into frames.

A frame has the tuples of one stream for one receiving task, from all tasks of the process. So the
number of frames grows with the number of receiving tasks, not with that of emitting tasks.
In format 1 each pair of tasks has frames of its own.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from kstorm.core.dead_letters import DeadLetter
from kstorm.core.lanes import Lane, LaneRows, take_together
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.wire import FIRST, WRITERS, TupleFrame, encode_tuples, encode_values, unpack_ids
from kstorm.errors import TupleTooLargeError
from kstorm.topology import Config

_MOST_HEADER = 4096
"""Most bytes of a frame with one tuple besides its values. The topics' limits allow for more than
that."""


class OversizedTuple(Struct, frozen=True):
    """A tuple that does not fit into a record. Its trees must fail or continue without it."""

    component: str
    task: int
    stream: str
    size: int
    limit: int
    reason: str
    pairs: dict[int, int]
    """Root → the tuple's edge, for each of its trees."""

    def error(self, followed: str = "its trees were failed") -> TupleTooLargeError:
        return TupleTooLargeError(f"{self._what}: {followed}")

    def letter(self, topology: str) -> DeadLetter:
        """Return a dead letter for the tuple, if none of its trees is failed."""
        return DeadLetter(
            topology=topology, component=self.component, task=self.task, reason=self._what
        )

    @property
    def _what(self) -> str:
        size = f" ({self.size:,} bytes encoded, the limit is {self.limit:,})" if self.size else ""
        return f"a tuple of {self.component!r} on the stream {self.stream!r}{size} {self.reason}"


class TupleSends:
    """The lanes of one process, until they are drained."""

    def __init__(self, config: Config, refuse: Callable[[OversizedTuple], None]) -> None:
        """`refuse` is called with each tuple that cannot be sent."""
        self._format = config.topology_frame_format
        self._write = WRITERS[self._format]
        self._max_tuples = config.topology_frame_max_tuples
        self._max_bytes = config.topology_frame_max_bytes
        self._refuse = refuse
        self._lanes: dict[tuple[str, str, str, int], list[Lane]] = {}
        """Lanes to the same task. In format 2, their tuples leave together."""
        self.sent: dict[tuple[str, str], int] = {}
        """Tuples drained, by stream and topic."""

    def add(self, lane: Lane) -> None:
        place = lane.component, lane.stream, lane.topic, lane.partition
        self._lanes.setdefault(place, []).append(lane)

    def forget(self, task: int) -> None:
        """Drop the lanes of a task."""
        for place, lanes in list(self._lanes.items()):
            left = [lane for lane in lanes if lane.task != task]
            if left:
                self._lanes[place] = left
            else:
                del self._lanes[place]

    @property
    def any(self) -> bool:
        return any(lane.has_tuples for lanes in self._lanes.values() for lane in lanes)

    def drain(self, by: str, worked: int) -> list[OutgoingRecord]:
        """Return the frames with all tuples. `by` and `worked` are as in `TupleFrame`."""
        sends: list[OutgoingRecord] = []
        for lanes in self._lanes.values():
            # `has_tuples` without its calls, because there is a lane for each pair of tasks.
            full = [lane for lane in lanes if lane.rows or lane.gathered.rows or lane.batches]
            if not full:
                continue
            if len(full) == 1 or self._format == FIRST:
                for lane in full:
                    sends.extend(self._frames(lane, lane.take(), by, worked))
            else:
                sends.extend(self._frames(full[0], take_together(full), by, worked))
        return sends

    def _frames(self, lane: Lane, rows: LaneRows, by: str, worked: int) -> Iterator[OutgoingRecord]:
        edge = lane.stream, lane.topic
        self.sent[edge] = self.sent.get(edge, 0) + rows.count
        for at in range(0, rows.count, self._max_tuples):
            yield from self._sized(lane, rows.part(at, at + self._max_tuples), by, worked)

    def _sized(self, lane: Lane, rows: LaneRows, by: str, worked: int) -> Iterator[OutgoingRecord]:
        """Yield one frame, or split it in halves until each part fits into a record."""
        runs = rows.runs
        task = runs[0][0] if runs else lane.task
        try:
            value = encode_tuples(
                TupleFrame(
                    self._format,
                    lane.component,
                    task,
                    lane.stream,
                    rows.count,
                    rows.roots,
                    rows.edges,
                    rows.more,
                    rows.columns,
                    by,
                    worked,
                    rows.parents,
                    runs if len(runs) > 1 else [],
                ),
                self._write,
            )
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            value, reason = b"", f"cannot be encoded as MessagePack: {error}"
        else:
            if len(value) <= self._max_bytes or self._fits_alone(rows, len(value)):
                yield OutgoingRecord(lane.topic, lane.partition, value)
                return
            reason = "is larger than topology_frame_max_bytes"
        if rows.count > 1:
            half = rows.count // 2
            yield from self._sized(lane, rows.part(0, half), by, worked)
            yield from self._sized(lane, rows.part(half, rows.count), by, worked)
            return
        pairs = dict(
            zip(unpack_ids(rows.roots), unpack_ids(rows.edges), strict=True)
        ) | rows.more.get(0, {})
        pairs.pop(0, None)
        self._refuse(
            OversizedTuple(
                lane.component, task, lane.stream, len(value), self._max_bytes, reason, pairs
            )
        )

    def _fits_alone(self, rows: LaneRows, size: int) -> bool:
        """Return True for a single tuple that is too large only because of the frame's header."""
        return (
            rows.count == 1
            and size <= self._max_bytes + _MOST_HEADER
            and sum(len(encode_values(column)) for column in rows.columns) <= self._max_bytes
        )
