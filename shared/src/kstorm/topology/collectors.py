"""What a component emits through. The objects that do it are `kstorm.core`'s; users only see these protocols."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kstorm.topology.batch import TupleBatch
from kstorm.topology.note import Note
from kstorm.topology.tuple import DEFAULT_STREAM, Tuple

Anchors = Tuple | Sequence[Tuple] | None
"""What an emitted tuple hangs on: one tuple, several (multi-anchoring), or none (unanchored)."""

Placed = list[tuple[int, Any]]
"""Where the tuples of a batch went: the id of each task that got some, and which (a slice, or an array of positions)."""


class ErrorReporter(Protocol):
    """Tells operators of an error without failing anything."""

    def report_error(self, error: BaseException) -> None:
        """Logs the error with the component and task, and counts it."""
        ...


class SpoutOutputCollector(ErrorReporter, Protocol):
    """Handed to `Spout.open`."""

    why_failed: Note | None
    """While `Spout.fail` is called: which task has failed the tree and over what, as far as that is known."""
    timed_out: bool
    """While `Spout.fail` is called: whether the tree took too long."""

    def emit(
        self,
        values: Sequence[Any],
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
        task: int | None = None,
    ) -> Sequence[int]:
        """Emits a tuple; returns the ids of the tasks that it went to.

        With a `message_id` (any object but None) the tuple's tree is tracked, and `ack` or `fail` is called on this very
        task with that object. `task` names the target on a direct stream. Raises `EmitError` on an undeclared stream or
        a wrong number of values.
        """
        ...

    def emit_batch(
        self,
        columns: Sequence[list[Any]],
        message_ids: Sequence[Any] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> Placed:
        """Emits many tuples, given as one list a field; not on direct streams. With `message_ids`, one each, their trees
        are tracked. Raises `EmitError` as `emit` does, and on columns that do not fit; then nothing was emitted."""
        ...

    @property
    def capacity(self) -> int:
        """How many more tracked tuples may be in flight before `topology_max_spout_pending` is reached.

        A spout that emits several tuples in one `next_tuple` should stop here; the limit is checked between calls.
        """
        ...

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
        """Puts a message that cannot be processed into the topology's dead letters.

        What each argument says, docs/dead-letters.md has by its name; an `error` of task 0 is this task's own. `on_stored` is
        called once the broker has it: only then may the source forget the message.
        """
        ...


class OutputCollector(ErrorReporter, Protocol):
    """Handed to `Bolt.prepare`."""

    def emit(
        self,
        values: Sequence[Any],
        anchors: Anchors = None,
        stream: str = DEFAULT_STREAM,
        task: int | None = None,
    ) -> Sequence[int]:
        """Emits a tuple anchored to `anchors`; returns the ids of the tasks that it went to.

        Raises `EmitError` on an undeclared stream, a wrong number of values, or an anchor that was acked already.
        """
        ...

    def emit_batch(
        self,
        columns: Sequence[list[Any]],
        anchors: TupleBatch | None = None,
        positions: Sequence[int] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> Placed:
        """Emits many tuples, given as one list a field; not on direct streams.

        Tuple i is anchored to tuple `positions[i]` of `anchors`; without `positions`, to tuple i. Raises `EmitError` as
        `emit` does, and on columns or positions that do not fit.
        """
        ...

    def ack_batch(self, batch: TupleBatch) -> None:
        """Says that all tuples of a batch are done; a second call for the same batch is ignored."""
        ...

    def fail_batch(self, batch: TupleBatch) -> None:
        """Fails the spout tuples at the roots of all trees of a batch."""
        ...

    def ack(self, tuple: Tuple) -> None:
        """Says that this tuple is done; a second call for the same tuple is ignored."""
        ...

    def fail(self, tuple: Tuple) -> None:
        """Fails the spout tuples at the root of this tuple's trees, at once."""
        ...

    def reset_timeout(self, tuple: Tuple) -> None:
        """Gives the tuple's trees the whole message timeout again."""
        ...


class BasicOutputCollector(ErrorReporter, Protocol):
    """Handed to `BasicBolt.execute`: anchors to the input by itself."""

    def emit(
        self, values: Sequence[Any], stream: str = DEFAULT_STREAM, task: int | None = None
    ) -> Sequence[int]:
        """Emits a tuple anchored to the one being executed."""
        ...

    def emit_batch(
        self,
        columns: Sequence[list[Any]],
        positions: Sequence[int] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> Placed:
        """Emits many tuples, given as one list a field, from within `execute_batch`.

        Tuple i is anchored to tuple `positions[i]` of the batch being executed; without `positions`, to tuple i.
        """
        ...

    def reset_timeout(self, tuple: Tuple) -> None:
        """Gives the tuple's trees the whole message timeout again."""
        ...
