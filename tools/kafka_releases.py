"""The oldest and the newest release of Kafka that kstorm is tested with.

The lists of their jars are next to this file. Users run `KAFKA_VERSION` of `kstorm.dev.jars`. The
first test that starts one of these servers fetches its jars.
"""

from pathlib import Path
from typing import Final

from kstorm.dev.jars import jars_of

# The last series that can keep its metadata in ZooKeeper.
OLD_KAFKA_VERSION: Final = "3.9.2"
NEW_KAFKA_VERSION: Final = "4.4.0"

OLD_KAFKA_LIST: Final = Path(__file__).with_name(f"kafka-{OLD_KAFKA_VERSION}.sha256")
NEW_KAFKA_LIST: Final = Path(__file__).with_name(f"kafka-{NEW_KAFKA_VERSION}.sha256")


def old_kafka_jars() -> list[Path]:
    """The jars of a Kafka server that can run with ZooKeeper."""
    return jars_of(OLD_KAFKA_LIST)


def new_kafka_jars() -> list[Path]:
    """The jars of the newest Kafka server."""
    return jars_of(NEW_KAFKA_LIST)
