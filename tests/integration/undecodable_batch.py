"""Batches that librdkafka cannot decode: zstd data that expands beyond its limit, or a record with
impossible lengths.

A broker accepts them. It reads a batch in pieces, and in compressed data it only checks the length
of each record.
"""

import gzip
from itertools import count
from struct import pack
from typing import Final

from tests.kafka_wire import batch, offer, varint

_TOO_MUCH: Final = 101_000_000  # librdkafka's receive.message.max.bytes is 100,000,000
_BLOCK: Final = 128 * 1024  # zstd's maximum
_GZIP, _ZSTD = 1, 4
_RAW, _REPEATED = 0, 1  # types of zstd blocks


def write_undecodable(bootstrap: str, topic: str, partition: int = 0, records: int = 1) -> int:
    """Append a batch of `records` records through the leader `bootstrap`, and return its first
    offset."""
    error, offset = offer(bootstrap, topic, partition, zstd_bomb(_TOO_MUCH, records))
    assert not error, f"Kafka does not take the batch: error {error}"
    return offset


def offer_undecodable(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Return Kafka's error for such a batch, or 0 if it is accepted."""
    return offer(bootstrap, topic, partition, zstd_bomb(_TOO_MUCH))[0]


def write_silent(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Append a record that librdkafka fetches forever without an error: its key has -2 bytes.

    Returns its offset.
    """
    body = b"\0" + varint(0) + varint(0) + varint(-2) + varint(5) + b"small" + varint(0)
    error, offset = offer(
        bootstrap, topic, partition, batch(_GZIP, 1, gzip.compress(varint(len(body)) + body))
    )
    assert not error, f"Kafka does not take the batch: error {error}"
    return offset


def zstd_bomb(size: int, records: int = 1) -> bytes:
    """Return a batch of a few kB whose last record has `size` bytes."""
    small = b"".join(_record(delta, b"small") for delta in range(records - 1))
    payload = _zeros_as_zstd(
        small + _record_head(records - 1, size), size + 1
    )  # the last byte means no headers
    return batch(_ZSTD, records, payload)


def _record(delta: int, value: bytes) -> bytes:
    body = _record_body(delta, len(value)) + value + varint(0)
    return varint(len(body)) + body


def _record_head(delta: int, size: int) -> bytes:
    """Return the start of a record up to a value of this size."""
    body = _record_body(delta, size)
    return varint(len(body) + size + 1) + body


def _record_body(delta: int, size: int) -> bytes:
    return b"\0" + varint(0) + varint(delta) + varint(-1) + varint(size)


def _zeros_as_zstd(head: bytes, zeros: int) -> bytes:
    """Return a zstd frame that contains `head` and zeros."""
    sizes = [_BLOCK] * (zeros // _BLOCK) + [zeros % _BLOCK]
    blocks = [_block(_RAW, head[at : at + _BLOCK]) for at in range(0, len(head), _BLOCK)]
    blocks += [
        _block(_REPEATED, b"\0", size, last=number == len(sizes))
        for number, size in zip(count(1), sizes, strict=False)
    ]
    window = (_BLOCK.bit_length() - 1 - 10) << 3
    return b"\x28\xb5\x2f\xfd" + pack("<BBI", 0x80, window, len(head) + zeros) + b"".join(blocks)


def _block(kind: int, data: bytes, size: int | None = None, *, last: bool = False) -> bytes:
    size = len(data) if size is None else size
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + data
