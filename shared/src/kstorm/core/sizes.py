"""How long a record is as Kafka has it, alone in a batch: what limits of topics and of clients are about."""

from collections.abc import Sequence
from typing import Final

from kstorm.core.outgoing import Outgoing

MAX_RECORD_BYTES: Final = 16 * 1024 * 1024
"""Of the longest record that a process writes: a ledger's bucket, a value of state, a sink's record. Frames and dead letters are
capped far below."""

_BATCH_BYTES: Final = 61
"""What is before the records of a batch."""
_SHORT: Final = 1024 * 1024
"""Characters; as UTF-8 they have four times as many bytes at most."""


def record_bytes(record: Outgoing) -> int:
    """The length of a batch of this record alone. Raises `TypeError` or `ValueError` if it holds what no record can."""
    body = 3 + _with_length(record.key) + _with_length(record.value)
    headers: Sequence[tuple[str, str | bytes | None]] = record.headers or ()
    body += _varint(len(headers)) + sum(
        _with_length(name) + _with_length(value) for name, value in headers
    )
    return _BATCH_BYTES + _varint(body) + body


def too_large(record: Outgoing) -> str:
    """Why no client can send a record; empty if one can. Raises as `record_bytes`."""
    if record.headers is None and len(record.key or b"") + len(record.value or b"") < _SHORT:
        return ""
    size = record_bytes(record)
    if size <= MAX_RECORD_BYTES:
        return ""
    return f"it has {size:,} bytes with key and headers, the limit is {MAX_RECORD_BYTES:,}"


def all_short(*columns: Sequence[str | bytes | None]) -> bool:
    """Whether the parts of all records together are so short that no record can be too large, without a look at each."""
    return sum(sum(map(len, filter(None, column))) for column in columns) < _SHORT


def _with_length(data: str | bytes | None) -> int:
    if data is None:
        return 1
    size = len(data.encode() if isinstance(data, str) else data)
    return _varint(size) + size


def _varint(number: int) -> int:
    """Bytes of a signed number, seven bits each."""
    return max(1, -(-(2 * number).bit_length() // 7))
