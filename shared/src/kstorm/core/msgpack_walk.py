"""Skips MessagePack values by their first bytes, without creating them."""

from math import inf
from typing import Final


def skip_values(
    data: bytes | bytearray, at: int, left: int, most: float = inf
) -> tuple[int, int, int]:
    """Skip `left` values from `at` on, as far as the data goes, or until more than `most` values are
    nested in them.

    Returns the next position, the number of values that are left, and the number of nested values.
    The position is behind the data if the last value is incomplete.
    """
    nested, end = 0, len(data)
    sizes = _SIZES
    while left and at < end:
        head = data[at]
        size = sizes[head]
        if size:
            at += size
            left -= 1
            continue
        width = _WIDTHS[head]
        content = at + 1 + width
        if content > end:
            break
        length = int.from_bytes(data[at + 1 : content], "big") if width else head & 0x0F
        at = content
        left -= 1
        if head in _CONTAINERS:
            inner = length * 2 if head in _MAPS else length
            nested += inner
            left += inner
            if nested > most:
                break
        else:
            at += length + (head in _EXTENSIONS)
    return at, left, nested


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
