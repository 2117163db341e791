"""Numbers of variable length, as Protobuf and Avro encode them: seven bits per byte, the lowest
first."""

from typing import Final

_LONGEST: Final = 10


class DamagedError(ValueError):
    """Bytes that are not a message that the decoder reads."""


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at`, and its end offset.

    Raises `DamagedError` if it is too long, and `IndexError` if it is truncated.
    """
    byte = data[at]
    found, shift = byte & 0x7F, 7
    while byte > 127:
        if shift == 7 * _LONGEST:
            raise DamagedError(f"it has a number of more than {_LONGEST} bytes")
        at += 1
        byte = data[at]
        found |= (byte & 0x7F) << shift
        shift += 7
    return found, at + 1
