"""Emits the tuples of messages so that a message that cannot be emitted does not affect the others.

A tuple is rejected if its values do not fit the declaration or are None, or if a grouping raises.
Then the spout gives up on the message without emitting any of its tuples. The other messages are
emitted.
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
    """Emit the tuples of many messages.

    The tuples of one message are adjacent and share one id object. All tuples are emitted as one
    batch. If the batch is rejected, its halves are tried separately, and so on. `refuse` is called
    for each message that must be given up.
    """
    try:
        _emit_batch(collector, rows, ids if tracked else None, stream)
    except Exception as error:  # noqa: BLE001 - groupings and invalid values may raise anything
        if ids[0] is ids[-1]:
            refuse(ids[0], explain_unemittable(rows, error), error)
            return
        at = _middle(ids)
        emit_rows(collector, rows[:at], ids[:at], stream, tracked=tracked, refuse=refuse)
        emit_rows(collector, rows[at:], ids[at:], stream, tracked=tracked, refuse=refuse)


def emit_message(collector: SpoutOutputCollector, rows: Rows, id: Any, stream: str) -> None:
    """Emit all tuples of one message, or raise without emitting any."""
    _emit_batch(collector, rows, None if id is None else [id] * len(rows), stream)


def explain_unemittable(rows: Rows, error: Exception) -> str:
    """Explain why a message with these tuples cannot be emitted."""
    if any(values is None for values in rows):
        return (
            "cannot be emitted: its scheme returned None in place of a tuple's values; to skip a "
            "message, it must return no tuple"
        )
    widths = {len(values) for values in rows if isinstance(values, Sized)}
    if len(widths) > 1:
        return (
            f"cannot be emitted: its scheme returned tuples of {sorted(widths)} values, but all "
            "must have the same length"
        )
    kind = "" if isinstance(error, EmitError) else f"{type(error).__name__}: "
    return f"cannot be emitted: {kind}{error}"


def _emit_batch(
    collector: SpoutOutputCollector, rows: Rows, ids: Sequence[Any] | None, stream: str
) -> None:
    # Tuples without fields cannot be emitted as columns.
    if len(rows) == 1 or not any(rows):
        for values, id in zip(rows, ids or [None] * len(rows), strict=True):
            collector.emit(values, id, stream)
    else:
        collector.emit_batch([list(column) for column in zip(*rows, strict=True)], ids, stream)


def _middle(ids: Sequence[Any]) -> int:
    """Return an index between two messages, as near to the middle as possible.

    `ids` must contain at least two messages.
    """
    half = len(ids) // 2
    at = half
    while at and ids[at] is ids[at - 1]:
        at -= 1
    if not at:
        at = half
        while ids[at] is ids[at - 1]:
            at += 1
    return at
