"""What both jobs have in common."""

from typing import Final

COLUMNS: Final = "word STRING, count BIGINT, id STRING, emitted_at BIGINT"
CORES: Final = 2
SHUFFLE_PARTITIONS: Final = 2
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""As in the demo: a run this short spends more on compiling well than it gains."""
