"""Limits of frames: bytes, and MessagePack values counted before anything is decoded.

Decoded data takes more memory than its bytes: an empty list has 1 byte, and takes 64 in Python. So
a limit on bytes alone is not enough. Values are counted by their first bytes without creating them,
and counting stops at the limit. Data with fewer bytes than the limit of values needs no check.
"""

from typing import Final

from kstorm.core.msgpack_walk import skip_values

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
    if len(data) <= most:
        return True
    _, _, nested = skip_values(data, 0, 1, most - 1)
    return nested < most
