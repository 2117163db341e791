"""What a process lends to the components that run in it: clients of Kafka, and of the queues that spouts read."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kstorm.errors import ConfigError
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.ports import (
    KAFKA,
    BatchDelivery,
    Delivery,
    Headers,
    KafkaPorts,
    OffsetStore,
    RecordColumn,
    RecordWriter,
    SourceReader,
)
from kstorm.queues import QUEUES, HostInfo, KestrelConfig, QueuePorts, QueueReader, RabbitMQConfig
from kstorm.runtime.delivery import WorkUnit
from kstorm.runtime.kafka_sink import KafkaWriter
from kstorm.runtime.kafka_source import KafkaSource
from kstorm.runtime.settings import Settings
from kstorm.topology import TopologyContext


class Resources:
    """The clients of one process; those of a spout are opened when one first asks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._writer: KafkaWriter | None = None
        self._offset_stores: Any = None
        self.unit: WorkUnit | None = None
        """The work at hand: records written now are part of it, so its input offset waits for them."""
        self.lent: dict[str, Any] = {
            KAFKA: KafkaPorts(
                open_source=self._open_source,
                open_offsets=self._open_offsets,
                open_shared_writer=self._open_shared_writer,
                open_writer=self._open_writer,
                topology_id=settings.topology_id or None,
            ),
            QUEUES: QueuePorts(open_rabbitmq=_open_rabbitmq, open_kestrel=_open_kestrel),
        }
        """For `TopologyContext.resources`."""

    def close(self) -> None:
        """Ends the ZooKeeper sessions. Waits at most a few seconds."""
        if self._offset_stores is not None:
            self._offset_stores.close()

    def _open_source(self, config: SpoutConfig) -> SourceReader:
        return KafkaSource(config, self._settings.client_config)

    def _open_offsets(self, config: SpoutConfig, context: TopologyContext) -> OffsetStore:
        from kstorm.runtime.zookeeper import ZooKeeperOffsetStores  # bolts run without the kazoo client

        if self._offset_stores is None:
            self._offset_stores = ZooKeeperOffsetStores(self._settings.zookeeper, auth=self._settings.zookeeper_auth)
        store: OffsetStore = self._offset_stores.open(config, context)
        return store

    def _open_shared_writer(self) -> RecordWriter:
        if self._writer is None:
            self._writer = KafkaWriter(self._client_config)
        return UnitWriter(self, self._writer, shared=True)

    def _open_writer(self, properties: Mapping[str, Any]) -> RecordWriter:
        return UnitWriter(self, KafkaWriter(self._client_config, properties))

    @property
    def _client_config(self) -> dict[str, Any]:
        return {**self._settings.client_config, "client.id": self._settings.instance}


class UnitWriter:
    """A `RecordWriter` whose records count as effects of the frame that the bolt executes."""

    def __init__(self, resources: Resources, writer: RecordWriter, shared: bool = False) -> None:
        self._resources, self._writer, self._shared = resources, writer, shared

    async def close(self) -> None:
        """Closes a writer of the bolt's own."""
        if not self._shared:
            await self._writer.close()

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: Delivery,
        headers: Headers | None = None,
    ) -> None:
        """See `RecordWriter.write`."""
        unit = self._resources.unit
        if unit is None:
            self._writer.write(topic, key, value, on_delivery, headers)
            return
        self._writer.write(topic, key, value, partial(_delivered, on_delivery, unit), headers)
        unit.add()

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: BatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        """See `RecordWriter.write_batch`."""
        unit = self._resources.unit
        if unit is None:
            self._writer.write_batch(topic, keys, values, on_done, headers)
            return
        unit.add()
        self._writer.write_batch(topic, keys, values, partial(self._batch_done, on_done, unit), headers)

    def _batch_done(self, on_done: BatchDelivery, unit: WorkUnit, errors: Sequence[object]) -> None:
        """What the bolt writes in answer, again one by one perhaps, belongs to the same unit."""
        at_hand, self._resources.unit = self._resources.unit, unit
        try:
            on_done(errors)
        finally:
            self._resources.unit = at_hand
            unit.delivered()


def _open_rabbitmq(config: RabbitMQConfig, prefetch: int) -> QueueReader:
    try:
        from kstorm.runtime.rabbitmq import RabbitMQReader  # few services have pika
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"RabbitMQSpout needs the module {error.name!r}, which is not installed: install kstorm[rabbitmq]"
        ) from None
    return RabbitMQReader(config, prefetch)


def _open_kestrel(config: KestrelConfig, queue: str, hosts: Sequence[HostInfo], open_reads: int) -> QueueReader:
    from kstorm.runtime.kestrel import KestrelReader

    return KestrelReader(config, queue, hosts, open_reads)


def _delivered(on_delivery: Delivery, unit: WorkUnit, error: object | None, record: object) -> None:
    on_delivery(error, record)
    unit.delivered()
