"""The collectors through which components emit, as protocols. `kstorm.core` implements them."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kstorm.topology.batch import TupleBatch
from kstorm.topology.note import Note
from kstorm.topology.tuple import DEFAULT_STREAM, Tuple

Anchors = Tuple | Sequence[Tuple] | None
"""The anchors of an emitted tuple: one tuple, several (multi-anchoring), or none (unanchored)."""

Placed = list[tuple[int, Any]]
"""The receiving tasks of a batch: each task ID with the positions of its tuples (a slice or an
array)."""


class ErrorReporter(Protocol):
    """Reports an error to operators without failing anything."""

    def report_error(self, error: BaseException) -> None:
        """Log the error with its component and task, and count it."""


class SpoutOutputCollector(ErrorReporter, Protocol):
    """The collector passed to `Spout.open`."""

    why_failed: Note | None
    """During `Spout.fail`, the task that failed the tree and its error, if known."""
    timed_out: bool
    """During `Spout.fail`, True if the tree timed out."""

    def emit(
        self,
        values: Sequence[Any],
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
        task: int | None = None,
    ) -> Sequence[int]:
        """Emit a tuple. Returns the ids of the tasks that receive it.

        With a `message_id` (any object except None), the tuple's tree is tracked. `ack` or `fail`
        is then called on this same task with that object. `task` names the receiver on a direct
        stream. The list of values is copied. Do not change lists or dicts inside it afterwards.
        Raises `EmitError` for an undeclared stream, a wrong number of values, or a call from
        another thread.
        """

    def emit_batch(
        self,
        columns: Sequence[list[Any]],
        message_ids: Sequence[Any] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> Placed:
        """Emit many tuples, given as one list per field. Not for direct streams.

        With `message_ids`, one per tuple, their trees are tracked. Raises `EmitError` as `emit`
        does, and for columns of different lengths. In these cases nothing is emitted.
        """

    @property
    def capacity(self) -> int:
        """Number of tracked tuples that may still be emitted before `topology_max_spout_pending` is
        reached.

        A spout that emits several tuples in one `next_tuple` should stop at this number. kstorm
        checks the limit only between two calls.
        """

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
        """Write a message that cannot be processed to the topology's dead letters.

        docs/guides/dead-letters.md describes each argument under its name. If the task of `error` is 0, it
        means this task. `on_stored` is called once the broker has the letter. Only then may the
        source forget the message.
        """


class OutputCollector(ErrorReporter, Protocol):
    """The collector passed to `Bolt.prepare`.

    Any thread may use it. Calls from other threads take effect between two executions.
    """

    def emit(
        self,
        values: Sequence[Any],
        anchors: Anchors = None,
        stream: str = DEFAULT_STREAM,
        task: int | None = None,
    ) -> Sequence[int]:
        """Emit a tuple anchored to `anchors`. Returns the ids of the tasks that receive it.

        The list of values is copied. Do not change lists or dicts inside it afterwards. Any thread
        may call this. From another thread, the tuple is sent later, and only the task of a direct
        stream is returned. Raises `EmitError` for an undeclared stream, a wrong number of values,
        or an anchor that was already acked or failed.
        """

    def emit_batch(
        self,
        columns: Sequence[list[Any]],
        anchors: TupleBatch | None = None,
        positions: Sequence[int] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> Placed:
        """Emit many tuples, given as one list per field. Not for direct streams.

        Tuple i is anchored to tuple `positions[i]` of `anchors`, or to tuple i without `positions`.
        Raises `EmitError` as `emit` does, and for invalid columns or positions.
        """

    def ack_batch(self, batch: TupleBatch) -> None:
        """Ack all tuples of a batch. A second call for the same batch is ignored."""

    def fail_batch(self, batch: TupleBatch) -> None:
        """Fail the spout tuples at the roots of all trees of a batch."""

    def ack(self, tuple: Tuple) -> None:
        """Ack this tuple. A second call for the same tuple is ignored."""

    def fail(self, tuple: Tuple) -> None:
        """Fail the spout tuples at the roots of this tuple's trees, immediately."""

    def reset_timeout(self, tuple: Tuple) -> None:
        """Restart the message timeout of the tuple's trees."""


class BasicOutputCollector(ErrorReporter, Protocol):
    """The collector passed to `BasicBolt.execute`. It anchors emits to the input automatically."""

    def emit(
        self, values: Sequence[Any], stream: str = DEFAULT_STREAM, task: int | None = None
    ) -> Sequence[int]:
        """Emit a tuple anchored to the one being executed.

        The list of values is copied. Do not change lists or dicts inside it afterwards. Raises
        `EmitError` as `OutputCollector.emit` does, and for a call from another thread.
        """

    def emit_batch(
        self,
        columns: Sequence[list[Any]],
        positions: Sequence[int] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> Placed:
        """Emit many tuples from within `execute_batch`, given as one list per field.

        Tuple i is anchored to tuple `positions[i]` of the batch being executed, or to tuple i
        without `positions`.
        """

    def reset_timeout(self, tuple: Tuple) -> None:
        """Restart the message timeout of the tuple's trees."""
