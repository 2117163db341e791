"""Refuses values that a component changes after it has emitted them.

An emit copies the list of values, but not the values themselves. A list, dict or set inside them
is encoded only when the tuple leaves. So its consumer might see a later change. The services do not
check this, because it would cost time for each tuple. The testing kit does.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from inspect import signature
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec

from kstorm.core.outbox import Outbox
from kstorm.core.outgoing import OutgoingRecord
from kstorm.errors import EmitError
from kstorm.topology import DEFAULT_STREAM

_CANNOT_CHANGE: Final = frozenset({str, int, float, bool, bytes, type(None)})


class ValueWatch:
    """The watch of one simulated cluster, or of one tested bolt."""

    def __init__(self) -> None:
        self._processes: WeakKeyDictionary[Outbox, _Watch] = WeakKeyDictionary()
        self._changed: list[str] = []
        """The errors of operations of streams. Raised within a batch, one would only repeat the
        batch."""

    def watch_task(self, task: Any, component: str) -> None:
        """Raise `EmitError` when tuples of a `BoltTask` or `SpoutTask` leave, if a value of one has
        changed since its emit. `component`: its name in the error."""
        watch = self._processes.get(task.outbox)
        if watch is None:
            watch = self._processes[task.outbox] = _Watch(self._changed)
            task.outbox.drain_tuples = _checked(watch, task.outbox.drain_tuples)
        fields = {
            stream.id: stream.fields.names
            for stream in task.topology.component(task.component).streams.values()
        }
        for emitter in task.emitters:
            for method, rows in (("emit", _one_row), ("emit_batch", _rows)):
                emit = getattr(emitter, method)
                setattr(emitter, method, _watched(watch, emit, rows, component, fields))

    def watch_buffer(self, buffer: Any, operation: str) -> None:
        """Compare the values that an operation of a stream emits with those at the end of its
        batch."""
        noted: list[tuple[int, Any, bytes]] = []
        emit, columns = buffer.emit, buffer.columns

        def watched(values: Sequence[Any]) -> None:
            emit(values)
            for place, value in enumerate(values):
                if type(value) not in _CANNOT_CHANGE and (now := _encoded(value)) is not None:
                    noted.append((place, value, now))

        def checked() -> Any:
            for place, value, before in noted:
                if _encoded(value) != before:
                    where = f"value {place + 1}"
                    self._changed.append(_what_changed(operation, where, before, value))
                    break
            noted.clear()
            return columns()

        buffer.emit, buffer.columns = watched, checked


class _Watch:
    """The values of one process that may change before they leave."""

    def __init__(self, changed: list[str]) -> None:
        self._changed = changed
        # Component, stream, field, value, and the value's encoded form at its emit.
        self._values: list[tuple[str, str, str, Any, bytes]] = []

    def note(
        self, component: str, stream: str, fields: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        for values in rows:
            for field, value in zip(fields, values, strict=False):
                if type(value) not in _CANNOT_CHANGE and (now := _encoded(value)) is not None:
                    self._values.append((component, stream, field, value, now))

    def check(self) -> None:
        if self._changed:
            first, *_ = self._changed
            self._changed.clear()
            raise EmitError(first)
        values, self._values = self._values, []
        for component, stream, field, value, before in values:
            if _encoded(value) != before:
                where = f"the field {field!r} of a tuple on the stream {stream!r}"
                raise EmitError(_what_changed(repr(component), where, before, value))


def _what_changed(emitter: str, where: str, before: bytes, value: Any) -> str:
    return (
        f"{emitter} has changed a value after its emit: {where} was "
        f"{msgspec.msgpack.decode(before)!r:.200} and is now {value!r:.200}. Emit a copy of the "
        "value, such as list(…), dict(…) or copy.deepcopy(…): its consumer may see either"
    )


def _checked(
    watch: _Watch, drain: Callable[[], list[OutgoingRecord]]
) -> Callable[[], list[OutgoingRecord]]:
    def drain_tuples() -> list[OutgoingRecord]:
        watch.check()
        return drain()

    return drain_tuples


def _watched(
    watch: _Watch,
    emit: Callable[..., Any],
    rows: Callable[[Any], Iterable[Sequence[Any]]],
    component: str,
    fields: dict[str, Sequence[str]],
) -> Callable[..., Any]:
    at = _place_of_stream(getattr(emit, "__func__", emit)) - hasattr(emit, "__self__")

    def watched(*args: Any, **named: Any) -> Any:
        sent = emit(*args, **named)
        stream = args[at] if len(args) > at else named.get("stream", DEFAULT_STREAM)
        watch.note(component, stream, fields[stream], rows(*args[:1], **named))
        return sent

    return watched


@lru_cache(64)
def _place_of_stream(function: Callable[..., Any]) -> int:
    return list(signature(function).parameters).index("stream")


def _one_row(values: Any = (), **_: Any) -> list[Sequence[Any]]:
    return [values]


def _rows(columns: Any = (), **_: Any) -> Iterable[Sequence[Any]]:
    return zip(*columns, strict=True)


def _encoded(value: Any) -> bytes | None:
    """Return the encoded form of a value, or None if it has none: such a tuple never leaves."""
    try:
        return msgspec.msgpack.encode(value)
    except Exception:  # noqa: BLE001 - a value's own methods may raise anything
        return None
