"""The collector of a spout task: begins a tree for each tuple that has a message id."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from kstorm.core.columns import as_column, as_positions
from kstorm.core.dead_letters import DeadLetter, LetterToStore, error_in
from kstorm.core.emission import Emission
from kstorm.core.emitter import Emitter, check_columns
from kstorm.core.failure_notes import Note
from kstorm.core.ids import NextId, NextIds
from kstorm.core.origin_numbers import Run
from kstorm.core.outbox import Outbox
from kstorm.core.routing import StreamRoutes
from kstorm.core.threads import current_thread, get_ident
from kstorm.core.user_code import OnError
from kstorm.core.watermarks import SpoutTimes
from kstorm.errors import EmitError, UnsendableError
from kstorm.topology import DEFAULT_STREAM, Fields, Placed, Source, Spout, Topology, Traced, Tuple


class TreeOwner(Protocol):
    """The part of a spout task that its collector uses."""

    topology: Topology
    component: str
    task_id: int
    spout: Spout
    times: SpoutTimes | None
    on_error: OnError

    @property
    def max_pending(self) -> int: ...

    @property
    def in_flight(self) -> int: ...

    def track(self, root: int, message_id: Any) -> None: ...

    def track_all(self, roots: Sequence[int], message_ids: Sequence[Any]) -> None: ...

    def ack_at_once(self, message_id: Any) -> None: ...

    def refused(self, error: UnsendableError, values: Sequence[Any], message_id: Any) -> None: ...


class SpoutCollector(Emitter):
    """The `SpoutOutputCollector` of one task."""

    def __init__(
        self,
        task: TreeOwner,
        table: dict[str, StreamRoutes],
        outbox: Outbox,
        next_id: NextId,
        next_ids: NextIds,
    ) -> None:
        super().__init__(task.component, table, outbox, next_id, next_ids)
        self._task = task
        self._tracking = outbox.ackers > 0
        self._trace = None  # a spout's tuples have no anchors
        self._tree = Tuple((), Source(task.component, DEFAULT_STREAM, task.task_id, Fields()))
        # The root of the tree that is being begun. A spout's tuple is anchored to it.
        self._origins: Callable[[Sequence[Any]], Iterable[Run]] | None = None
        if isinstance(task.spout, Traced):
            self._origins = task.spout.origins
        self.why_failed: Note | None = None
        self.timed_out = False

    @property
    def capacity(self) -> int:
        return max(0, self._task.max_pending - self._task.in_flight)

    def emit(
        self,
        values: Sequence[Any],
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
        task: int | None = None,
    ) -> Sequence[int]:
        try:
            lanes = self.choose(values, stream, task)
        except UnsendableError as error:
            if get_ident() != self.owner:
                raise self._wrong_thread() from None
            if self._task.spout.handles_unsendable:
                raise
            self._task.refused(error, values, message_id)
            return ()
        tracked = message_id is not None and self._tracking
        root, tree = self._next_id() if tracked else 0, self._tree
        tree.root, tree.ack_val = root, 0
        targets = self.put(values, tree, stream, task, -1, lanes)
        times, tracked = self._task.times, tracked and bool(targets)
        if times is not None:
            known = ((root,), (message_id,)) if tracked else ((), ())
            times.emitted(stream, (values,), *known)
        if tracked:
            self._task.track(root, message_id)
            if self._origins is None:
                self._outbox.init(self._task.task_id, root, tree.ack_val)
            else:
                columns = as_column(root), as_column(tree.ack_val)
                self._outbox.init_columns(self._task.task_id, *columns, self._origins([message_id]))
        elif message_id is not None:
            self._task.ack_at_once(message_id)
        return targets

    def emit_batch(
        self,
        columns: Sequence[list[Any]],
        message_ids: Sequence[Any] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> Placed:
        if get_ident() != self.owner:
            raise self._wrong_thread()
        try:
            route, count = check_columns(self._routes.get(stream), self._component, columns, stream)
        except UnsendableError:
            if self._task.spout.handles_unsendable:
                raise
            return self._emit_the_rest(columns, message_ids, stream)
        if message_ids is not None and len(message_ids) != count:
            raise EmitError(
                f"{self._task.component!r} emits a batch of {count} tuples with "
                f"{len(message_ids)} message ids: give one per tuple"
            )
        roots = self._next_ids(count) if message_ids is not None and self._tracking else None
        emission = Emission(route, columns, count, roots, self._next_ids)
        self.put_batch(emission, stream, columns, count)
        if (times := self._task.times) is not None:
            rows = list(zip(*columns, strict=True))
            if roots is not None and message_ids is not None and emission.placed:
                times.emitted(stream, rows, roots.tolist(), message_ids)
            else:
                times.emitted(stream, rows, (), ())
        if roots is not None and message_ids is not None and emission.placed:
            self._task.track_all(roots.tolist(), message_ids)
            origins = () if self._origins is None else self._origins(message_ids)
            self._outbox.init_columns(self._task.task_id, roots, emission.vals, origins)
        else:
            for message_id in message_ids or ():
                self._task.ack_at_once(message_id)
        return emission.placed

    def from_elsewhere(self, *_: Any) -> Sequence[int]:
        """Refuse an emit by a thread that does not run the task."""
        raise self._wrong_thread()

    def _wrong_thread(self) -> EmitError:
        if self.closed:
            return EmitError(
                f"the spout {self._component!r} emits after its task has left this process: stop "
                "emitting in close"
            )
        return EmitError(
            f"the spout {self._component!r} uses its collector in the thread "
            f"{current_thread().name!r}, but only the thread that calls next_tuple may. Let other "
            "threads put their messages into a queue.SimpleQueue, and emit what it holds in "
            "next_tuple"
        )

    def _emit_the_rest(
        self, columns: Sequence[list[Any]], message_ids: Sequence[Any] | None, stream: str
    ) -> Placed:
        """Emit a batch without the tuples that cannot be sent, and refuse these."""
        rows = list(zip(*columns, strict=True))
        bad = self._routes[stream].sendable.unsendable_rows(rows)
        for row, error in bad.items():
            self._task.refused(error, rows[row], None if message_ids is None else message_ids[row])
        kept = [row for row in range(len(rows)) if row not in bad]
        if not kept:
            return []
        ids = None if message_ids is None else [message_ids[row] for row in kept]
        left = [[column[row] for row in kept] for column in columns]
        at = as_positions(kept)
        return [(task, at[rows]) for task, rows in self.emit_batch(left, ids, stream)]

    def dead_letter(
        self,
        reason: str,
        *,
        value: bytes | None,
        key: bytes | None = None,
        topic: str = "",
        partition: int = -1,
        offset: int = -1,
        attempts: int = 0,
        kind: str = "",
        error: Note | None = None,
        headers: Sequence[tuple[str, str | None]] = (),
        timestamp: int = 0,
        replays: int = 0,
        on_stored: Callable[[], None] | None = None,
    ) -> None:
        if get_ident() != self.owner:
            raise self._wrong_thread()
        letter = DeadLetter(
            topology=self._task.topology.name,
            component=self._task.component,
            task=self._task.task_id,
            reason=reason,
            topic=topic,
            partition=partition,
            offset=offset,
            key=key,
            value=value,
            attempts=attempts,
            kind=kind,
            error=None if error is None else error_in(error),
            headers=list(headers),
            timestamp=timestamp,
            replays=replays,
        )
        self._outbox.letters.append(LetterToStore(letter, on_stored))

    def report_error(self, error: BaseException) -> None:
        self._task.on_error(error, "reported")
