"""What a record tells of the message that it was made of, as both readers of records know it: Spark's, and Python's."""

import zlib
from typing import Final

LINEAGE: Final = tuple(f"kstorm-source-{part}" for part in ("topic", "partition", "offset", "part"))
"""The headers: the coordinates of the message, and which of its records this is."""
LAST_MILLISECOND: Final = 253402300799999
"""Of the year 9999, the last that Spark's timestamps are made for."""
BUCKETS: Final = 64
"""Of source partitions; a file of silver holds one."""


def bucket_of(topic: str, partition: int) -> int:
    """The bucket of a source partition: neighbouring partitions of a topic are in different ones."""
    return (zlib.crc32(topic.encode()) + partition) % BUCKETS
