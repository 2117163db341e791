"""Limits on the size of messages and the number of their values, checked before decoding.

Decoded data takes more memory than its bytes: `[]` has 2 bytes in JSON, and takes 56 in Python. A
compressed batch of 2 kB can hold a message of 60 MB.
"""

import re
from typing import Final

MOST_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Default maximum bytes of a message including its key, see `KafkaConfig.max_message_bytes`."""
MOST_VALUES: Final = 400_000
"""Default maximum number of values in a message, nested ones included. This is also the limit of a
tuple."""

# Possessive quantifiers do not backtrack, so a long string takes no extra memory. The closing quote
# is optional, so an unterminated string extends to the end of the data. Otherwise it would be
# searched again from each quote in it.
_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_MARKS: Final = b",[{:"


def check_json(data: bytes, most: int) -> None:
    """Raise `ValueError` if the JSON holds more than `most` values. Does not decode it."""
    if len(data) <= most or _marks(data) < most:
        return
    # Drop all strings in one call, because their characters are not separators.
    rest, texts = _TEXT.subn(b"", data, count=most + 1)
    if texts >= most or _marks(rest) >= most:
        raise too_many("its JSON", most)


def too_many(what: str, most: int) -> ValueError:
    """Build the error for data with more than `most` values."""
    return ValueError(f"{what} has more than {most:,} values, including nested ones")


def check_size(size: int, most: int) -> None:
    """Raise `ValueError` if a message is longer than `most` bytes."""
    if size > most:
        raise ValueError(f"it has {size:,} bytes, but max_message_bytes is {most:,}")


def _marks(data: bytes) -> int:
    """Count the separators. Every value except the first one follows a separator."""
    return sum(map(data.count, _MARKS))
