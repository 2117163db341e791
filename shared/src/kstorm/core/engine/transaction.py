"""The order of the requests that make one checkpoint's transaction.

1. The changes are written to the changelog.
2. All of them have arrived. Only then
3. the offsets are handed in, which the group refuses to a process that has lost its tasks, and with them the transaction.
4. It is committed.

Whoever takes a task over reads the changelog up to its end, open transactions included, and waits for what is open there.
If offsets could be accepted before the changes had arrived, a process that sleeps between the two would be missed: its
successor would go on behind the offsets, from a state without the changes.
"""

from collections.abc import Iterator
from enum import Enum, auto


class Request(Enum):
    """What is asked of Kafka, one after the other."""

    WRITE = auto()
    FLUSH = auto()
    OFFSETS = auto()
    COMMIT = auto()


def requests() -> Iterator[Request]:
    """The requests of one transaction, in order."""
    yield Request.WRITE  # 1
    yield Request.FLUSH  # 2
    yield Request.OFFSETS  # 3
    yield Request.COMMIT  # 4
