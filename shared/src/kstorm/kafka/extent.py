"""How large a message may be, and how many values it may hold, before anything is made of it.

What is decoded takes more memory than its bytes: `[]` is two bytes, and 56 in Python. And a batch of 2 kB can hold a message of
60 MB.
"""

import re
from typing import Final

MOST_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of a message, with its key, unless a `SpoutConfig` says otherwise."""
MOST_VALUES: Final = 400_000
"""Most values in a message, those within others counted too, unless a scheme says otherwise; no tuple may have more."""

_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
# What is possessive remembers nothing, so a long text takes no memory. One that does not end reaches to the end of all: else it
# would be looked for again at each quote that is in it.
_MARKS: Final = b",[{:"


def check_json(data: bytes, most: int) -> None:
    """Raises `ValueError` if JSON holds more values than `most`. Nothing is decoded or copied for that."""
    if len(data) <= most or (marks := _marks(data, 0, len(data))) < most:
        return
    texts = 0
    for texts, found in enumerate(
        _TEXT.finditer(data), 1
    ):  # what is in texts does not count, but each text does
        marks -= _marks(data, *found.span())
        if texts > most:
            break
    if max(marks, texts) >= most:
        raise too_many("its JSON", most)


def too_many(what: str, most: int) -> ValueError:
    """The error for what has more values than `most`."""
    return ValueError(f"{what} has more than {most:,} values, those within others counted too")


def check_size(size: int, most: int) -> None:
    """Raises `ValueError` if a message is longer than `most`."""
    if size > most:
        raise ValueError(f"it has {size:,} bytes, and max_message_bytes is {most:,}")


def _marks(data: bytes, start: int, end: int) -> int:
    """Every value but the first follows one of these."""
    return sum(data.count(mark, start, end) for mark in _MARKS)
