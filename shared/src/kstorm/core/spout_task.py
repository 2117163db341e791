"""One spout task: calls `next_tuple`, tracks in-flight tuples, calls `ack` and `fail`.

The spout's own clock decides timeouts. Completions of roots that it does not wait for are counted
and ignored.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from msgspec.structs import replace

from kstorm.core.failure_notes import Note, caller, note_of
from kstorm.core.ids import NextId, NextIds, columns_of
from kstorm.core.outbox import Outbox
from kstorm.core.rotating_map import RotatingMap
from kstorm.core.routing import routes
from kstorm.core.spout_collector import SpoutCollector
from kstorm.core.task_time import SpoutTime
from kstorm.core.user_code import OnError, Steps
from kstorm.core.wire import CompletionFrame, unpack_ids
from kstorm.errors import UnsendableError
from kstorm.topology import Spout, Topology

# Rotated every half timeout, so a tree fails between 1 and 1.5 message timeouts.
_BUCKETS = 3

Pending = tuple[Any, float]
"""A spout tuple in flight: its message id and the time of its emit."""


class SpoutTask(SpoutTime):
    """Runs one spout. The driver activates it, calls `next_tuple` and `tick`, passes completions
    and drains the outbox.

    Every `now` is seconds of one monotonic clock. An inactive spout still receives the completions
    of its trees.
    """

    def __init__(
        self,
        topology: Topology,
        component: str,
        task_index: int,
        spout: Spout,
        outbox: Outbox,
        next_id: NextId,
        on_error: OnError,
        now: float,
        next_ids: NextIds | None = None,
    ) -> None:
        self.topology, self.component, self.task_index, self.spout = (
            topology,
            component,
            task_index,
            spout,
        )
        self.task_id = topology.task_ids(component)[task_index]
        self.config = topology.component(component).config
        self.max_pending = self.config.topology_max_spout_pending
        self.on_error = on_error
        table = routes(topology, component, task_index, outbox)
        self.collector = SpoutCollector(
            self, table, outbox, next_id, next_ids or columns_of(next_id)
        )
        self.outbox = outbox
        self.active = False
        """True while the spout emits. False before `activate`."""
        self.in_flight = 0
        """Tracked tuples neither acked nor failed."""
        self.acked = self.failed = self.timed_out = 0
        self.unknown = 0
        """Completions of roots that this task does not wait for."""
        self.throttled = False
        """True if `topology_max_spout_pending` held back the last `next_tuple`."""
        self.latencies: list[float] = []
        """Seconds from emit to ack of the trees completed since the driver last cleared the list."""
        self._pending: RotatingMap[int, Pending] = RotatingMap(_BUCKETS)
        self._overdue: dict[int, Pending] = {}
        self._at_once: list[Any] = []
        self._refused: list[tuple[Any, Note]] = []
        self._now = now
        self._rotate_every = self.config.message_timeout_secs / (_BUCKETS - 1)
        self._next_rotation = now + self._rotate_every

    @property
    def emitters(self) -> list[SpoutCollector]:
        """The objects through which the spout emits."""
        return [self.collector]

    def activate(self) -> Steps:
        """Activate the spout if it is inactive.

        An exception from its own `activate` reaches the driver, because a partly activated spout
        cannot work.
        """
        if not self.active:
            pending = self.spout.activate()
            if pending is not None:
                yield pending
            self.active = True

    def deactivate(self) -> Steps:
        """Deactivate the spout if it is active. In-flight trees continue."""
        if self.active:
            self.active = self.throttled = False
            pending = self.spout.deactivate()
            if pending is not None:
                yield pending

    def next_tuple(self, now: float) -> Steps:
        """Request a tuple, if the spout is active and below its pending limit."""
        self._pass_time(now)
        self.throttled = self.active and self.in_flight >= self.max_pending
        if self.throttled or not self.active:
            return
        before = self.collector.emitted
        try:
            pending = self.spout.next_tuple()
            if pending is not None:
                yield pending
        except Exception as error:  # noqa: BLE001 - user code may raise anything; the task continues
            self.on_error(error, "in next_tuple")
        self.emits = self.collector.emitted != before
        yield from self._tell_at_once()

    def completed(self, frame: CompletionFrame, now: float) -> Steps:
        """Handle the completions in an acker's frame."""
        self._pass_time(now)
        acked, failed, reset = (
            unpack_ids(frame.acked),
            unpack_ids(frame.failed),
            unpack_ids(frame.reset),
        )
        return self._told(acked, failed, reset, frame.notes)

    def tick_is_due(self, now: float) -> bool:
        """Return True if `tick` may have something to do."""
        return now >= self._next_rotation or bool(self._overdue or self._at_once or self._refused)

    def tick(self, now: float) -> Steps:
        """Fail tuples that have been in flight for longer than the message timeout."""
        self._pass_time(now)
        overdue, self._overdue = self._overdue, {}
        self.timed_out += len(overdue)
        yield from self._expire(overdue)
        yield from self._tell_at_once()

    def _expire(self, overdue: Mapping[int, Pending]) -> Steps:
        """End trees that have exceeded the message timeout: the policy of at-least-once processing."""
        for root, entry in overdue.items():
            self.collector.timed_out = True
            yield from self._tell_failed(root, entry)

    def _pass_time(self, now: float) -> None:
        """Advance the clock and rotate pending tuples.

        The rotation comes first. So a task that was paused does not fail the tuples that it emits
        on waking. Completions that waited for it still find their trees.
        """
        self._now = now
        while now >= self._next_rotation:
            self._next_rotation += self._rotate_every
            self._overdue.update(self._pending.rotate())

    def track(self, root: int, message_id: Any) -> None:
        """Track a new tree of this task."""
        self._pending.put_new(root, (message_id, self._now))
        self.in_flight += 1

    def track_all(self, roots: Sequence[int], message_ids: Sequence[Any]) -> None:
        """Track many new trees of this task."""
        self._pending.put_all_new(zip(roots, zip(message_ids, repeat(self._now)), strict=True))
        self.in_flight += len(roots)

    def ack_at_once(self, message_id: Any) -> None:
        """Ack an untracked tuple as soon as `next_tuple` or `tick` returns."""
        self._at_once.append(message_id)

    def refused(self, error: UnsendableError, values: Sequence[Any], message_id: Any) -> None:
        """Report a tuple that cannot be sent, and fail its message as soon as `next_tuple` or
        `tick` returns."""
        note = self.report_refused(error)
        if message_id is not None:
            if self.times is not None:
                self.times.refused(message_id, self._now)
            self._refused.append((message_id, note))

    def report_refused(self, error: UnsendableError) -> Note:
        """Report the error, with the line of the spout that emits the tuple."""
        where = caller()
        self.on_error(type(error)(f"{error} ({where})" if where else str(error)), "emitting")
        return replace(note_of(self.task_id, error), where=where)

    def _pop(self, root: int) -> Pending | None:
        return self._pending.pop(root) or self._overdue.pop(root, None)

    def _told(
        self,
        acked: Sequence[int],
        failed: Sequence[int],
        reset: Sequence[int],
        notes: Mapping[int, Note],
    ) -> Steps:
        now = self._now
        message_ids = []
        for root in acked:
            entry = self._pop(root)
            if entry is None:
                self.unknown += 1
                continue
            if self.times is not None:
                self.times.ended(root)
            self.in_flight -= 1
            self.latencies.append(now - entry[1])
            message_ids.append(entry[0])
        yield from self._tell_acked(message_ids)
        for root in failed:
            entry = self._pop(root)
            if entry is None:
                self.unknown += 1
            else:
                self.collector.why_failed = notes.get(root)
                yield from self._tell_failed(root, entry)
        for root in reset:
            entry = self._pop(root)
            if entry is not None:
                self._pending.put_new(root, entry)

    def _tell_at_once(self) -> Steps:
        while self._at_once:
            message_ids, self._at_once = self._at_once, []
            yield from self._tell_acked(message_ids)
        while self._refused:
            refused, self._refused = self._refused, []
            for message_id, note in refused:
                self.collector.why_failed = note
                self.in_flight += 1  # `_tell_failed` subtracts it
                yield from self._tell_failed(0, (message_id, self._now))

    def _tell_acked(self, message_ids: Sequence[Any]) -> Steps:
        ack = self.spout.ack
        for message_id in message_ids:
            self.acked += 1
            try:
                pending = ack(message_id)
                if pending is not None:
                    yield pending
            except Exception as error:  # noqa: BLE001 - as in next_tuple
                self.on_error(error, f"in ack of {message_id!r}")

    def _tell_failed(self, root: int, entry: Pending) -> Steps:
        if self.times is not None:
            self.times.failed(root, entry[0], self._now)
        self.in_flight -= 1
        self.failed += 1
        try:
            pending = self.spout.fail(entry[0])
            if pending is not None:
                yield pending
        except Exception as error:  # noqa: BLE001 - as in next_tuple
            self.on_error(error, f"in fail of {entry[0]!r}")
        self.collector.why_failed, self.collector.timed_out = None, False
