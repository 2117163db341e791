"""The size of a record in Kafka, as a batch of its own.

Limits of topics and clients refer to this size.
"""

from collections.abc import Sequence
from typing import Final

from kstorm.core.outgoing import OutgoingRecord

MAX_RECORD_BYTES: Final = 16 * 1024 * 1024
"""Limit for the longest records of a process: a ledger bucket, a state value, a sink's record.

Frames and dead letters have much lower limits.
"""

_BATCH_BYTES: Final = 61
"""Size of a batch before its records."""
_SHORT: Final = 1024 * 1024
"""Characters, whose UTF-8 form has at most four times as many bytes."""


def record_bytes(record: OutgoingRecord) -> int:
    """Return the size of a batch with only this record.

    Raises `TypeError` or `ValueError` if a record cannot hold these values.
    """
    body = 3 + _with_length(record.key) + _with_length(record.value)
    headers: Sequence[tuple[str, str | bytes | None]] = record.headers or ()
    body += _varint(len(headers)) + sum(
        _with_length(name) + _with_length(value) for name, value in headers
    )
    return _BATCH_BYTES + _varint(body) + body


def too_large(record: OutgoingRecord) -> str:
    """Return the reason why a record is too large for any client, or "".

    Raises as `record_bytes` does.
    """
    if record.headers is None and len(record.key or b"") + len(record.value or b"") < _SHORT:
        return ""
    size = record_bytes(record)
    if size <= MAX_RECORD_BYTES:
        return ""
    return f"it has {size:,} bytes with key and headers, the limit is {MAX_RECORD_BYTES:,}"


def all_short(*columns: Sequence[str | bytes | None]) -> bool:
    """Return True if all parts of all records together are so short that no record can be too
    large.

    This saves checking each record.
    """
    return sum(sum(map(len, filter(None, column))) for column in columns) < _SHORT


def _with_length(data: str | bytes | None) -> int:
    if data is None:
        return 1
    size = len(data.encode() if isinstance(data, str) else data)
    return _varint(size) + size


def _varint(number: int) -> int:
    """Return the size of a signed varint: seven bits per byte."""
    return max(1, -(-(2 * number).bit_length() // 7))
