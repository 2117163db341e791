"""Write a stream to a Kafka topic."""

from typing import Any

from kstorm.kafka import KafkaBolt
from kstorm.kafka.serializer import to_json
from kstorm.topology import Tuple, TupleBatch


def json_bolt(topic: str, key: str | None) -> KafkaBolt:
    """Return a bolt that writes each tuple as a JSON record. Its key is the value of the field
    `key`, or none."""
    return KafkaBolt().with_topic_selector(topic).with_tuple_to_kafka_mapper(JsonMapper(key))


class JsonMapper:
    """Maps a tuple's fields to a JSON object."""

    def __init__(self, key: str | None = None) -> None:
        self._key = key

    def get_key_from_tuple(self, tuple: Tuple) -> Any:
        return None if self._key is None else tuple[self._key]

    def get_message_from_tuple(self, tuple: Tuple) -> bytes:
        """Return all fields as JSON, including the key. Raises `ValueError` for NaN and
        infinities."""
        return to_json(tuple.as_dict())

    def columns_of_batch(self, batch: TupleBatch) -> tuple[list[Any], list[Any]]:
        names = batch.source.fields.names
        keys = [None] * len(batch) if self._key is None else batch[self._key]
        return keys, [to_json(dict(zip(names, row, strict=True))) for row in batch.rows()]
