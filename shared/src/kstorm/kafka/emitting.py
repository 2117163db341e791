"""Emits the tuples of messages so that one that cannot be emitted takes no other with it.

A tuple is refused for what is in it: its values do not fit the declaration, are None, or a grouping raises on them. Then
its message is given up whole, with none of its tuples emitted, and all others go on.
"""

from collections.abc import Callable, Sequence, Sized
from typing import Any, TypeVar

from kstorm.errors import EmitError
from kstorm.topology import SpoutOutputCollector

Id = TypeVar("Id")
Rows = Sequence[Sequence[Any]]
"""The values of tuples."""


def emit_rows(
    collector: SpoutOutputCollector,
    rows: Rows,
    ids: Sequence[Id],
    stream: str,
    *,
    tracked: bool,
    refuse: Callable[[Id, str, Exception], None],
) -> None:
    """Emits tuples of many messages; those of one are neighbours and have the same object as their id.

    All go in one batch; if that is refused, its halves do, and so on. `refuse` is called with what must be given up.
    """
    try:
        _emit_batch(collector, rows, ids if tracked else None, stream)
    except Exception as error:  # noqa: BLE001 - a user's grouping may raise anything, and so may values that are none
        if ids[0] is ids[-1]:
            refuse(ids[0], why(rows, error), error)
            return
        at = _middle(ids)
        emit_rows(collector, rows[:at], ids[:at], stream, tracked=tracked, refuse=refuse)
        emit_rows(collector, rows[at:], ids[at:], stream, tracked=tracked, refuse=refuse)


def emit_message(collector: SpoutOutputCollector, rows: Rows, id: Any, stream: str) -> None:
    """Emits the tuples of one message, or raises and has emitted none of them."""
    _emit_batch(collector, rows, None if id is None else [id] * len(rows), stream)


def why(rows: Rows, error: Exception) -> str:
    """Why a message with these tuples cannot be emitted."""
    if any(values is None for values in rows):
        return "cannot be emitted: its scheme gives None in place of a tuple's values; to skip a message it must give no tuple"
    widths = {len(values) for values in rows if isinstance(values, Sized)}
    if len(widths) > 1:
        return f"cannot be emitted: its scheme gives tuples of {sorted(widths)} values, but they must be of one length"
    kind = "" if isinstance(error, EmitError) else f"{type(error).__name__}: "
    return f"cannot be emitted: {kind}{error}"


def _emit_batch(
    collector: SpoutOutputCollector, rows: Rows, ids: Sequence[Any] | None, stream: str
) -> None:
    if len(rows) == 1 or not any(rows):  # tuples without fields make no columns
        for values, id in zip(rows, ids or [None] * len(rows), strict=True):
            collector.emit(values, id, stream)
    else:
        collector.emit_batch([list(column) for column in zip(*rows, strict=True)], ids, stream)


def _middle(ids: Sequence[Any]) -> int:
    """Where to cut in two, between two messages; there are two at least."""
    half = len(ids) // 2
    at = half
    while at and ids[at] is ids[at - 1]:
        at -= 1
    if not at:
        at = half
        while ids[at] is ids[at - 1]:
            at += 1
    return at
