"""How much of the topology's own topics a reader takes in at once.

Nothing is compressed there (`topic_settings`), so no more than this comes of it. Of a source topic nobody knows how much a batch
of it may hold: its reader keeps librdkafka's 100 MB.
"""

from collections.abc import Mapping
from typing import Final

from kstorm.core.sizes import MAX_RECORD_BYTES

OWN_TOPICS: Final[Mapping[str, int]] = {
    # An answer is as long as this, or as its first batch if that is longer. None is longer than the longest record, and what
    # the broker puts around it.
    "fetch.max.bytes": MAX_RECORD_BYTES,
    # librdkafka opens a batch of zstd up to this, and drops the connection over an answer that is longer.
    "receive.message.max.bytes": 2 * MAX_RECORD_BYTES,
}
"""librdkafka properties. They win over the process's own."""
