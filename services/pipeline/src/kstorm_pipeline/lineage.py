"""The format of a record's lineage (its source message), for the Spark and the Python reader."""

import zlib
from typing import Final

LINEAGE: Final = tuple(f"kstorm-source-{part}" for part in ("topic", "partition", "offset", "part"))
"""Headers: the source message's coordinates, and the record's number among those made from it."""
LAST_MILLISECOND: Final = 253402300799999
"""The last millisecond of the year 9999, and the last that Spark's timestamps are meant for."""
BUCKETS: Final = 64
"""Number of buckets of source partitions. A file of silver contains one bucket."""


def bucket_of(topic: str, partition: int) -> int:
    """Return the bucket of a source partition. Adjacent partitions have different ones."""
    return (zlib.crc32(topic.encode()) + partition) % BUCKETS
