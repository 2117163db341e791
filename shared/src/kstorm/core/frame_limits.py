"""Limits of frames: bytes, and MessagePack values counted before anything is decoded.

Decoded data takes more memory than its bytes: an empty list has 1 byte, and takes 64 in Python. So
a limit on bytes alone is not enough. Values are counted by their first bytes without creating them,
and counting stops at the limit. Data with fewer bytes than the limit of values needs no check.
"""

from typing import Final

MOST_VALUES: Final = 400_000
"""Most values of any kind in a frame, including nested ones. Decoded, they take about 40 MB."""

# A frame may have been sent before the setting was lowered, or by a process with a larger setting.
_SLACK: Final = 4
# Acks and completions need about 640 kB, regardless of the limit for tuples.
_LEAST: Final = 1024 * 1024


def most_frame_bytes(topology_frame_max_bytes: int) -> int:
    """Return the longest valid frame of a topology, given the largest setting of its components."""
    return _SLACK * max(_LEAST, topology_frame_max_bytes)


def within(data: bytes, most: int = MOST_VALUES) -> bool:
    """Return True if the data holds at most `most` values.

    Data that is not valid MessagePack may also return True: the decoder rejects it.
    """
    return len(data) <= most or _count_within(data, most)


def _count_within(data: bytes, most: int) -> bool:
    # `known`: values counted so far. `open_ones`: those of them that are not skipped yet.
    known, open_ones, at, end = 1, 1, 0, len(data)
    sizes = _SIZES
    while open_ones and at < end:
        head = data[at]
        size = sizes[head]
        open_ones -= 1
        if size:
            at += size
            continue
        wide = _WIDTHS[head]
        length = int.from_bytes(data[at + 1 : at + 1 + wide], "big") if wide else head & 0x0F
        at += 1 + wide
        if head in _CONTAINERS:
            inner = length * 2 if head in _MAPS else length
            known += inner
            if known > most:
                return False
            open_ones += inner
        else:
            at += length + (head in _EXTENSIONS)
    return True


def _sizes() -> list[int]:
    """Return the size of a value by its first byte, or 0 if more bytes determine it."""
    sizes = [1] * 256
    for head in range(0xA0, 0xC0):
        sizes[head] = 1 + (head & 0x1F)
    for head, size in _FIXED.items():
        sizes[head] = size
    for head in (*_CONTAINERS, *_WIDTHS):
        sizes[head] = 0
    return sizes


_FIXED: Final = {
    0xCA: 5,
    0xCB: 9,
    0xCC: 2,
    0xCD: 3,
    0xCE: 5,
    0xCF: 9,
    0xD0: 2,
    0xD1: 3,
    0xD2: 5,
    0xD3: 9,
    0xD4: 3,
    0xD5: 4,
    0xD6: 6,
    0xD7: 10,
    0xD8: 18,
}
_MAPS: Final = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))
_CONTAINERS: Final = _MAPS | frozenset((*range(0x90, 0xA0), 0xDC, 0xDD))
_EXTENSIONS: Final = frozenset((0xC7, 0xC8, 0xC9))
_WIDTHS: Final = {
    **dict.fromkeys(range(0x80, 0xA0), 0),
    0xC4: 1,
    0xC5: 2,
    0xC6: 4,
    0xC7: 1,
    0xC8: 2,
    0xC9: 4,
    0xD9: 1,
    0xDA: 2,
    0xDB: 4,
    0xDC: 2,
    0xDD: 4,
    0xDE: 2,
    0xDF: 4,
}
"""By the first byte of a value, the width of its length field in bytes."""

_SIZES: Final = _sizes()
