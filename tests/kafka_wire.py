"""Speaks Kafka's protocol to write and read raw batches.

No client library writes a broken batch.
"""

import socket
import time
from struct import calcsize, pack, unpack, unpack_from
from typing import Final

_PRODUCE, _PRODUCE_VERSION = 0, 7
_FETCH, _FETCH_VERSION = 1, 4
_NO_LEADER_YET: Final = (3, 5, 6)
_HEAD: Final = ">qiibIhiqqqhii"
"""Header of a batch: offset, length, epoch, version, checksum, attributes, last offset, two times,
producer (three), count."""
_BEFORE_LENGTH: Final = 8 + 4


def offer(bootstrap: str, topic: str, partition: int, batch: bytes) -> tuple[int, int]:
    """Make the leader at `bootstrap` append a batch.

    Returns Kafka's error code (0 for none) and the first offset of the batch.
    """
    body = (
        pack(">hhi", -1, -1, 30_000)
        + pack(">i", 1)
        + text(topic)
        + pack(">iii", 1, partition, len(batch))
        + batch
    )
    deadline = time.monotonic() + 30
    while True:
        answer = _ask(bootstrap, _PRODUCE, _PRODUCE_VERSION, body)
        _, error, offset = unpack_from(">ihq", answer, 4 + 4 + len(text(topic)) + 4)
        if error not in _NO_LEADER_YET:
            return int(error), int(offset)
        assert time.monotonic() < deadline, f"{topic}[{partition}] has no leader"
        time.sleep(0.05)


def fetch(bootstrap: str, topic: str, partition: int, offset: int) -> bytes:
    """Return the raw batches from an offset."""
    body = (
        pack(">iiiib", -1, 1000, 1, 1 << 26, 0)
        + pack(">i", 1)
        + text(topic)
        + pack(">iiqi", 1, partition, offset, 1 << 26)
    )
    answer = _ask(bootstrap, _FETCH, _FETCH_VERSION, body)
    at = 4 + 4 + 4 + len(text(topic)) + 4
    _, error, *_, aborted, size = unpack_from(">ihqqii", answer, at)
    assert (error, aborted) in ((0, 0), (0, -1)), f"{topic}[{partition}] is not read: error {error}"
    return answer[at + calcsize(">ihqqii") :][:size]


def batch(codec: int, records: int, payload: bytes) -> bytes:
    """Return a batch of `records` records, with compressed `payload`.

    The records have the present time, because Kafka may delete older ones at any moment.
    """
    now = time.time_ns() // 1_000_000
    rest = pack(">hiqqqhii", codec, records - 1, now, now, -1, -1, -1, records) + payload
    return pack(">qiibI", 0, 4 + 1 + 4 + len(rest), 0, 2, _crc32c(rest)) + rest


def parts(batch: bytes) -> tuple[int, int, bytes]:
    """Return codec, record count and payload of the first batch."""
    length, attributes, records = (unpack_from(_HEAD, batch)[index] for index in (1, 5, 12))
    return attributes & 7, records, batch[calcsize(_HEAD) : _BEFORE_LENGTH + length]


def text(text: str) -> bytes:
    """Encode a string of the protocol."""
    return pack(">h", len(text)) + text.encode()


def varint(number: int) -> bytes:
    """Encode a signed number with seven bits per byte."""
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def _ask(bootstrap: str, key: int, version: int, body: bytes) -> bytes:
    request = pack(">hhi", key, version, 1) + text("stranger") + body
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(pack(">i", len(request)) + request)
        answer = connection.makefile("rb")
        (size,) = unpack(">i", answer.read(4))
        return answer.read(size)


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
