"""Writes a batch of records that librdkafka does not decode: a few bytes that are zstd of more than it accepts.

A broker takes it, as it reads a batch piece by piece. No client library writes such a thing, so this speaks Kafka's protocol
itself: one ProduceRequest on a connection of its own.
"""

import socket
import time
from itertools import count
from struct import pack, unpack, unpack_from
from typing import Final

_TOO_MUCH: Final = 101_000_000  # librdkafka's receive.message.max.bytes is 100,000,000
_BLOCK: Final = 128 * 1024  # zstd's most
_PRODUCE, _VERSION = 0, 7
_NO_LEADER_YET: Final = (3, 5, 6)
_ZSTD: Final = 4
_RAW, _REPEATED = 0, 1  # kinds of zstd's blocks


def write_undecodable(bootstrap: str, topic: str, partition: int = 0, records: int = 1) -> int:
    """Appends a batch of so many records, whose leader is at `bootstrap`; returns its first offset."""
    error, offset = offer(bootstrap, topic, partition, _batch(records))
    assert not error, f"Kafka does not take the batch: error {error}"
    return offset


def offer_undecodable(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Kafka's error for such a batch, 0 if it takes it."""
    return offer(bootstrap, topic, partition, _batch(1))[0]


def offer(bootstrap: str, topic: str, partition: int, batch: bytes) -> tuple[int, int]:
    """Sends a batch as it is; returns Kafka's error, 0 if it has taken it, and the batch's first offset."""
    body = pack(">hhi", -1, -1, 30_000) + pack(">i", 1) + _text(topic) + pack(">iii", 1, partition, len(batch)) + batch
    request = pack(">hhi", _PRODUCE, _VERSION, 1) + _text("stranger") + body
    deadline = time.monotonic() + 30
    while True:
        answer = _ask(bootstrap, request)
        _, error, offset = unpack_from(">ihq", answer, 4 + 4 + len(_text(topic)) + 4)
        if error not in _NO_LEADER_YET:
            return int(error), int(offset)
        assert time.monotonic() < deadline, f"{topic}[{partition}] has no leader"
        time.sleep(0.05)


def _ask(bootstrap: str, request: bytes) -> bytes:
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(pack(">i", len(request)) + request)
        answer = connection.makefile("rb")
        (size,) = unpack(">i", answer.read(4))
        return answer.read(size)


def _batch(records: int) -> bytes:
    small = b"".join(_record(delta, b"small") for delta in range(records - 1))
    payload = _zeros_as_zstd(small + _record_head(records - 1, _TOO_MUCH), _TOO_MUCH + 1)  # the last says: no headers
    rest = pack(">hiqqqhii", _ZSTD, records - 1, 0, 0, -1, -1, -1, records) + payload
    return pack(">qiibI", 0, 4 + 1 + 4 + len(rest), 0, 2, _crc32c(rest)) + rest


def _record(delta: int, value: bytes) -> bytes:
    body = _record_body(delta, len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _record_head(delta: int, size: int) -> bytes:
    """The beginning of a record whose value is so long, up to that."""
    body = _record_body(delta, size)
    return _varint(len(body) + size + 1) + body


def _record_body(delta: int, size: int) -> bytes:
    return b"\0" + _varint(0) + _varint(delta) + _varint(-1) + _varint(size)


def _zeros_as_zstd(head: bytes, zeros: int) -> bytes:
    """A frame of zstd whose content is some bytes, and zeros behind them."""
    sizes = [_BLOCK] * (zeros // _BLOCK) + [zeros % _BLOCK]
    blocks = [_block(_RAW, head[at : at + _BLOCK]) for at in range(0, len(head), _BLOCK)]
    blocks += [
        _block(_REPEATED, b"\0", size, last=number == len(sizes)) for number, size in zip(count(1), sizes, strict=False)
    ]
    window = (_BLOCK.bit_length() - 1 - 10) << 3
    return b"\x28\xb5\x2f\xfd" + pack("<BBI", 0x80, window, len(head) + zeros) + b"".join(blocks)


def _block(kind: int, data: bytes, size: int | None = None, *, last: bool = False) -> bytes:
    size = len(data) if size is None else size
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + data


def _varint(number: int) -> bytes:
    """Signed, seven bits each."""
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def _text(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode()


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
