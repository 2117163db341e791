"""Settings of the Kafka and ZooKeeper that kstorm starts itself: on one machine, and in the
development images.

Uses only Python's standard library, because the images have no other.
"""

import json
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# Makes Java compile less and start sooner, for processes that run briefly or have little to do.
QUICK_START: Final = "-XX:TieredStopAtLevel=1"
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")

BROKER: Final[Mapping[str, str]] = {
    # A client's request must never create a topic with the wrong number of partitions.
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    # Short segments, so that old offsets are compacted away. A broker that starts after a kill
    # reads all offsets, and reads them again in the leader epoch that starts half a second later.
    # If the first read ends during the second, Kafka 4.1 may leave a coordinator in a permanently
    # failed state.
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # Check frequently for timed-out transactions of killed processes, because readers wait for
    # them.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Members of a new group do not wait for each other, and are declared dead within seconds.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # A killed broker may return once its session has expired.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    # The cleaner allocates its whole buffer at once. The default is more than a small heap can
    # spare.
    "log.cleaner.dedupe.buffer.size": "16777216",
}
"""Settings of a single-node Kafka, except its listeners and data folder."""

ZOOKEEPER: Final[Mapping[str, str]] = {
    "tickTime": "500",  # a session lasts at least two ticks
    # Otherwise every write waits for the disk, for seconds on a busy one. If the machine itself
    # crashes, the last writes may be lost, as in Kafka's log.
    "forceSync": "no",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",  # all clients may share one address
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "srvr",
}
"""Settings of a standalone ZooKeeper, except its port and data folder."""


def java_options(heap: str) -> list[str]:
    """Return the JVM options for a server with this heap size, in the format of `-Xmx`."""
    return [
        f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
    ]  # fmt: skip


def new_cluster_id() -> str:
    """Return a UUID in Kafka's format. A leading dash, as one in 64 has, would be parsed as an
    option."""
    while (cluster_id := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith(
        "-"
    ):
        pass
    return cluster_id


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file. Its escapes of backslashes and non-ASCII characters are those
    of JSON."""
    path.write_text(
        "".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in settings.items())
    )
