"""Fetch limits for the topology's own topics.

These topics are not compressed (`topic_settings`), so the limits also apply to the decompressed
size. The decompressed size of a source topic's batch is unknown, so its reader keeps librdkafka's
100 MB.
"""

from collections.abc import Mapping
from typing import Final

from kstorm.core.record_size import MAX_RECORD_BYTES

OWN_TOPICS: Final[Mapping[str, int]] = {
    # Limits the size of a response, unless its first batch is larger. The longest batch is the
    # longest record plus the broker's framing.
    "fetch.max.bytes": MAX_RECORD_BYTES,
    # librdkafka decompresses a zstd batch up to this size, and drops the connection if a response
    # is longer.
    "receive.message.max.bytes": 2 * MAX_RECORD_BYTES,
}
"""librdkafka properties that override the process's own."""
