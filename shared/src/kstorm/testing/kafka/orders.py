"""Reads the orders of a topology from the topics of a fake Kafka: the `OrderReader` of a `KafkaSpout`."""

from collections.abc import Sequence

from kstorm.testing.kafka.broker import Topics


class FakeOrders:
    """Has read what was there when it was asked."""

    def __init__(self, topics: Topics, topic: str) -> None:
        self._topics, self._topic, self._next = topics, topic, 0

    def read(self) -> Sequence[tuple[bytes | None, bytes | None]]:
        """See `OrderReader.read`."""
        records = self._topics.log(self._topic, 0).since(self._next, 500)
        if records:
            self._next = records[-1].offset() + 1
        return [(record.key(), record.value()) for record in records]

    def close(self) -> None:
        """Nothing is open."""
