"""Clients that a process provides to its components: for Kafka, and for the queues that spouts
read."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from kstorm.errors import ConfigError
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.ports import (
    KAFKA,
    KafkaPorts,
    OffsetStore,
    PositionReader,
    RecordWriter,
    ReplayRequestReader,
    SourceReader,
)
from kstorm.queues import QUEUES, HostInfo, KestrelConfig, QueuePorts, QueueReader, RabbitMQConfig
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.group_positions import GroupPositions
from kstorm.runtime.kafka.open_transactions import OpenTransactions
from kstorm.runtime.kafka.replay_request_reader import KafkaReplayRequests
from kstorm.runtime.kafka.shared_positions import SharedPositions
from kstorm.runtime.kafka.shared_replay_requests import SharedReplayRequests
from kstorm.runtime.kafka.shared_source import SharedSources
from kstorm.runtime.kafka.shared_writer import SharedWriters
from kstorm.runtime.kafka.sink import KafkaWriter, end_process
from kstorm.runtime.kafka.source import KafkaSource
from kstorm.topology import TopologyContext

if TYPE_CHECKING:
    from kstorm.runtime.zookeeper.session import ZooKeeperSession

# A spout writes a range per partition and commit, so explicit reports cost it nothing.
_REPORTS_ALL: Final = {"delivery.report.only.error": False}


class Resources:
    """The clients of one process. The clients of a spout are opened on first use.

    `fatal` is called when a client has failed permanently, and must end the process. `session` is
    the process's ZooKeeper session, if one exists. The creator of the session closes it.
    """

    def __init__(
        self,
        settings: Settings,
        fatal: Callable[[Exception], None] = end_process,
        session: "ZooKeeperSession | None" = None,
    ) -> None:
        self._settings, self._fatal, self._session = settings, fatal, session
        self._writer: KafkaWriter | None = None
        self._writers = SharedWriters(lambda: self._open_own_writer(_REPORTS_ALL))
        self._sources = SharedSources(self._open_source)
        self._opened: WeakSet[KafkaSource] = WeakSet()
        # A process runs the tasks of one topology and component.
        self._positions: SharedPositions | None = None
        self._replay_requests: SharedReplayRequests | None = None
        self._offset_stores: Any = None
        self.lent: dict[str, Any] = {
            KAFKA: KafkaPorts(
                open_source=self._sources.lend,
                open_offsets=self._open_offsets,
                open_shared_writer=self._open_shared_writer,
                open_writer=self._open_writer,
                open_positions=self._open_positions,
                open_orders=self._open_replay_requests,
                topology_id=settings.topology_id or None,
            ),
            QUEUES: QueuePorts(open_rabbitmq=_open_rabbitmq, open_kestrel=_open_kestrel),
        }
        """The value of `TopologyContext.resources`."""

    def fetch(self) -> bool:
        """Fetch messages for the process's spouts. Return True if there were any."""
        return self._sources.fetch()

    def open_transactions(self) -> list[OpenTransactions]:
        """Return the open transactions that block the process's spouts."""
        return [each for source in list(self._opened) for each in source.open_transactions]

    def close(self) -> None:
        """Close the ZooKeeper sessions opened here. Waits a few seconds at most."""
        if self._offset_stores is not None:
            self._offset_stores.close()

    def _open_source(self, config: SpoutConfig) -> SourceReader:
        source = KafkaSource(config, self._settings.client_config, self._settings.zookeeper_tls)
        self._opened.add(source)
        return source

    def _open_offsets(self, config: SpoutConfig, context: TopologyContext) -> OffsetStore:
        # Imported here because bolts run without the kazoo client.
        from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsetStores

        if self._offset_stores is None:
            self._offset_stores = ZooKeeperOffsetStores(
                self._settings.zookeeper,
                auth=self._settings.zookeeper_auth,
                session=self._session,
                tls=self._settings.zookeeper_tls,
                instance=self._settings.instance,
            )
        store: OffsetStore = self._offset_stores.open(config, context)
        return store

    def _open_shared_writer(self) -> RecordWriter:
        if self._writer is None:
            self._writer = self._open_own_writer()
        return self._writer

    def _open_positions(self, context: TopologyContext) -> PositionReader:
        if self._positions is None:
            group = context.topology.group(context.component)
            self._positions = SharedPositions(lambda: GroupPositions(self._settings, group))
        return self._positions.lend()

    def _open_replay_requests(self, context: TopologyContext) -> ReplayRequestReader:
        if self._replay_requests is None:
            topic = context.topology.orders_topic
            self._replay_requests = SharedReplayRequests(
                lambda: KafkaReplayRequests(self._settings, topic)
            )
        return self._replay_requests.lend()

    def _open_writer(self, properties: Mapping[str, Any]) -> RecordWriter:
        return self._open_own_writer(properties) if properties else self._writers.lend()

    def _open_own_writer(self, properties: Mapping[str, Any] | None = None) -> KafkaWriter:
        return KafkaWriter(self._client_config, properties, self._fatal)

    @property
    def _client_config(self) -> dict[str, Any]:
        return {**self._settings.client_config, "client.id": self._settings.instance}


def _open_rabbitmq(config: RabbitMQConfig, prefetch: int) -> QueueReader:
    try:
        from kstorm.runtime.queues.rabbitmq import RabbitMQReader  # few services have pika
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"RabbitMQSpout needs the module {error.name!r}, which is not installed: install "
            "kstorm[rabbitmq]"
        ) from None
    return RabbitMQReader(config, prefetch)


def _open_kestrel(
    config: KestrelConfig, queue: str, hosts: Sequence[HostInfo], open_reads: int
) -> QueueReader:
    from kstorm.runtime.queues.kestrel import KestrelReader

    return KestrelReader(config, queue, hosts, open_reads)
