"""Reads the topic `<topology>.__orders`."""

from collections.abc import Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from kstorm.runtime.base.settings import Settings

_MOST: Final = 500


class KafkaReplayRequests:
    """Reads replay requests without a consumer group."""

    def __init__(self, settings: Settings, topic: str) -> None:
        config = {
            "group.id": "kstorm-orders",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        self.at_end = False
        self._consumer = Consumer(
            {**settings.client_config, **config, "client.id": settings.instance}
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def read(self) -> Sequence[tuple[bytes | None, bytes | None]]:
        """This ignores errors of Kafka, because the reader of the source reports them."""
        found = []
        for record in self._consumer.consume(_MOST, 0):
            error = record.error()
            if error is None:
                found.append((_bytes(record.key()), _bytes(record.value())))
            elif error.code() == KafkaError._PARTITION_EOF:
                self.at_end = True
        return found

    def close(self) -> None:
        self._consumer.close()


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
