"""What a process lends to the components that run in it: Kafka clients for `KafkaSpout` and `KafkaBolt`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.ports import (
    KAFKA,
    BatchDelivery,
    Delivery,
    KafkaPorts,
    OffsetStore,
    RecordColumn,
    RecordWriter,
    SourceReader,
)
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
            )
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
            self._offset_stores = ZooKeeperOffsetStores(self._settings.zookeeper)
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
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> None:
        """See `RecordWriter.write`."""
        unit = self._resources.unit
        if unit is None:
            self._writer.write(topic, key, value, on_delivery, headers)
            return
        self._writer.write(topic, key, value, partial(_delivered, on_delivery, unit), headers)
        unit.add()

    def write_batch(self, topic: str, keys: RecordColumn, values: RecordColumn, on_done: BatchDelivery) -> None:
        """See `RecordWriter.write_batch`."""
        unit = self._resources.unit
        if unit is None:
            self._writer.write_batch(topic, keys, values, on_done)
            return
        unit.add()
        self._writer.write_batch(topic, keys, values, partial(self._batch_done, on_done, unit))

    def _batch_done(self, on_done: BatchDelivery, unit: WorkUnit, errors: Sequence[object]) -> None:
        """What the bolt writes in answer, again one by one perhaps, belongs to the same unit."""
        at_hand, self._resources.unit = self._resources.unit, unit
        try:
            on_done(errors)
        finally:
            self._resources.unit = at_hand
            unit.delivered()


def _delivered(on_delivery: Delivery, unit: WorkUnit, error: object | None, record: object) -> None:
    on_delivery(error, record)
    unit.delivered()
