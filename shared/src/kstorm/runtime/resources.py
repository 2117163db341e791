"""What a process lends to the components that run in it: Kafka clients for `KafkaSpout` and `KafkaBolt`."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.ports import KAFKA, Delivery, KafkaPorts, OffsetStore, RecordWriter, SourceReader
from kstorm.runtime.delivery import Delivery as Producing
from kstorm.runtime.delivery import WorkUnit
from kstorm.runtime.settings import Settings
from kstorm.topology import TopologyContext


class Resources:
    """The clients of one process; opened when a component first asks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.lent: dict[str, Any] = {}
        """For `TopologyContext.resources`."""
        self.unit: WorkUnit | None = None
        """The work at hand: records written now are part of it, so its input offset waits for them."""

    def start(self, delivery: Producing) -> None:
        """Makes the clients available."""
        self.lent[KAFKA] = KafkaPorts(
            open_source=self._open_source,
            open_offsets=self._open_offsets,
            writer=UnitWriter(self, delivery),
            open_writer=self._open_writer,
        )

    def _open_source(self, config: SpoutConfig) -> SourceReader:
        from kstorm.runtime.kafka_source import KafkaSource

        return KafkaSource(config, self._settings.client_config)

    def _open_offsets(self, config: SpoutConfig, context: TopologyContext) -> OffsetStore:
        from kstorm.runtime.zookeeper import ZooKeeperOffsets

        return ZooKeeperOffsets(config, context, self._settings.zookeeper)

    def _open_writer(self, properties: Mapping[str, Any]) -> RecordWriter:
        from kstorm.runtime.kafka_sink import KafkaSink

        return KafkaSink.own({**self._settings.client_config, **properties})


class UnitWriter:
    """The process's producer as a `RecordWriter`: what a bolt writes counts as an effect of the frame it executes."""

    def __init__(self, resources: Resources, delivery: Producing) -> None:
        self._resources, self._delivery = resources, delivery

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: Delivery,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:
        """See `RecordWriter.write`."""
        unit = self._resources.unit
        if unit is not None:
            unit.add()
            on_delivery = partial(_delivered, on_delivery, unit)
        options = {} if headers is None else {"headers": headers}
        self._delivery.produce(topic, value, key=key, on_delivery=on_delivery, **options)

    async def close(self) -> None:
        """The process's producer is shared, and closed with the process."""


def _delivered(on_delivery: Delivery, unit: WorkUnit, error: object | None, record: object) -> None:
    on_delivery(error, record)
    unit.delivered()
