"""Offsets that Storm's Kafka spout has stored, and evidence that it still runs.

Both spouts store the first unfinished offset of a partition:

- storm-kafka-client commits it for a consumer group. Since Storm 2.0 the group has no members,
  because the spout assigns its partitions itself.
- storm-kafka writes it to ZooKeeper, to `<zkRoot>/<id>/partition_<n>`.

Both also store the id of Storm's topology. While that topology exists, Storm has the node
`/storm/storms/<id>` in its ZooKeeper.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
from confluent_kafka import TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kstorm.errors import ConfigError, InUseError
from kstorm.kafka.offsets import StoredOffset
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.offset_reader import OffsetReader
from kstorm.runtime.zookeeper.client import broker_errors

_TOPOLOGY_ID: Final = re.compile(r'"topologyId" *: *"([^"]+)"')
_NODE: Final = re.compile(r"partition_(\d{1,9})")


@dataclass(frozen=True, slots=True)
class StormOffset:
    offset: int
    """The first unfinished offset."""
    topology_id: str = field(default="", compare=False)
    """Id of Storm's topology, or "" if it is not stored."""
    version: int = 0
    """Number of writes to the ZooKeeper node."""


class StormOffsets(Protocol):
    """The stored offsets of one Storm spout."""

    @property
    def place(self) -> str:
        """Their place, for messages."""
        ...

    def read(self, topic: str) -> Mapping[int, StormOffset]:
        """Return the offsets by partition. Raises `ConfigError` if there are none of the topic."""
        ...

    def check_unused(self) -> None:
        """Raise `InUseError` if a process of Storm is connected."""
        ...


class GroupOffsets:
    """Offsets of storm-kafka-client: those of a consumer group."""

    def __init__(self, settings: Settings, group: str) -> None:
        self._settings, self._group = settings, group
        self._admin = Admin(settings)

    @property
    def place(self) -> str:
        return f"the group {self._group!r} in Kafka"

    def read(self, topic: str) -> Mapping[int, StormOffset]:
        stored = OffsetReader(self._settings).all_stored(self._group)
        offsets = {
            place.partition: StormOffset(place.offset, topology_id_of(place))
            for place in stored
            if place.topic == topic
        }
        if not offsets:
            topics = ", ".join(sorted({repr(place.topic) for place in stored}))
            raise ConfigError(
                f"{self.place} has offsets of {topics}, but none of {topic!r}: check the topic"
                if topics
                else f"{self.place} has no offsets: check the group.id of Storm's KafkaSpoutConfig"
            )
        return offsets

    def check_unused(self) -> None:
        members = self._admin.group_members([self._group])[self._group]
        if members:
            hosts = ", ".join(sorted({f"{each.client_id} on {each.host}" for each in members}))
            raise InUseError(
                f"{self.place} has {len(members)} live members ({hosts}). Nothing was changed; "
                "stop Storm's topology with `storm kill` first"
            )


class NodeOffsets:
    """Offsets of storm-kafka: JSON in ZooKeeper."""

    def __init__(self, client: KazooClient, path: str, auth: str = "") -> None:
        self._client, self._path, self._auth = client, path.rstrip("/"), auth

    @property
    def place(self) -> str:
        return f"the node {self._path} in ZooKeeper"

    def read(self, topic: str) -> Mapping[int, StormOffset]:
        with broker_errors(self._auth, self._path):
            try:
                names = self._client.get_children(self._path)
            except NoNodeError:
                names = []
            matches = filter(None, map(_NODE.fullmatch, sorted(names)))
            offsets = {int(match[1]): self._read(match[0], topic) for match in matches}
        if not offsets:
            raise ConfigError(
                f"{self.place} has no partition_0: give --node /ZKROOT/ID with the zkRoot and id "
                "of Storm's SpoutConfig, and /TOPIC behind them if it reads several topics"
            )
        return offsets

    def _read(self, name: str, topic: str) -> StormOffset:
        path = f"{self._path}/{name}"
        data, stat = self._client.get(path)
        try:
            stored = msgspec.json.decode(data, type=StoredOffset)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(
                f"{path} has {data[:200]!r}, which is not an offset of storm-kafka ({error})"
            ) from None
        if stored.topic != topic:
            raise ConfigError(
                f"{path} has an offset of the topic {stored.topic!r}, but kstorm's spout reads "
                f"{topic!r}: both must read the same topic"
            )
        return StormOffset(stored.offset, stored.topology.id, stat.version)

    def check_unused(self) -> None:
        """Nothing connects to these nodes for good. Storm's writes are seen by their versions."""


def check_not_listed(client: KazooClient, root: str, topology_ids: set[str], auth: str) -> None:
    """Raise `InUseError` if Storm's ZooKeeper lists one of the topologies."""
    for id in sorted(topology_ids - {""}):
        path = f"{root.rstrip('/')}/storms/{id}"
        with broker_errors(auth, path):
            if client.exists(path):
                raise InUseError(
                    f"Storm's topology {id!r} still exists: ZooKeeper has {path}. Nothing was "
                    "changed; stop it with `storm kill` and wait until the node is gone. If "
                    "there is no such Storm any more, delete the node"
                )


def topology_id_of(place: TopicPartition) -> str:
    """Return the topology's id from the JSON that storm-kafka-client commits as metadata.

    confluent-kafka 2.16 reads the metadata until a zero byte, which librdkafka does not write. So
    any bytes may follow the JSON.
    """
    try:
        metadata = place.metadata or ""
    except UnicodeDecodeError as error:
        metadata = error.object.decode(errors="replace")
    found = _TOPOLOGY_ID.search(metadata)
    return "" if found is None else found[1]
