"""Settings that both jobs share."""

from typing import Final

COLUMNS: Final = "word STRING, count BIGINT, id STRING, emitted_at BIGINT"
CORES: Final = 2
SHUFFLE_PARTITIONS: Final = 2
