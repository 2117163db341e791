"""The settings of Kafka and ZooKeeper wherever kstorm starts them itself: on one machine, and in the images for development.

Only Python's own library, since the images have no other.
"""

import json
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# For what runs briefly or does little: compile less, start sooner.
QUICK_START: Final = "-XX:TieredStopAtLevel=1"
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")

BROKER: Final[Mapping[str, str]] = {
    # A topic with the wrong number of partitions must never come into being by a client's asking for it.
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    # Short, so that old offsets are compacted away. A broker that starts after a kill reads them all, and again in the leader epoch
    # that comes half a second later; Kafka 4.1 may leave a coordinator failed for good if the first reading ends amid the second.
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # What a killed process left open is looked for at once, when its time is over: readers wait for it.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The members of a group need not wait for one another at the start, and may be found dead in seconds.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # A killed broker may come back once its session is over.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    # The cleaner's buffer is allocated whole and lies outside what a small heap can spare.
    "log.cleaner.dedupe.buffer.size": "16777216",
}
"""Settings of a Kafka of one node, but for where it listens and keeps its data."""

ZOOKEEPER: Final[Mapping[str, str]] = {
    "tickTime": "500",  # a session cannot be shorter than two of it
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",  # all clients may have the same address
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "srvr",
}
"""Settings of a standalone ZooKeeper, but for where it listens and keeps its data."""


def java_options(heap: str) -> list[str]:
    """The JVM's options for a server with so much heap, as `-Xmx` has it."""
    return [
        f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
    ]  # fmt: skip


def new_cluster_id() -> str:
    """A UUID in Kafka's form; one that began with a dash, as one in 64 does, would be taken for an option."""
    while (cluster_id := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith(
        "-"
    ):
        pass
    return cluster_id


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a file of Java properties, whose rules for backslashes and for what is not ASCII are those of JSON."""
    path.write_text(
        "".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in settings.items())
    )
