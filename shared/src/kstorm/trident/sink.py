"""How a stream ends in a topic."""

from typing import Any

import msgspec

from kstorm.kafka import KafkaBolt
from kstorm.topology import Tuple, TupleBatch


def json_bolt(topic: str, key: str | None) -> KafkaBolt:
    """Writes a record of JSON for each tuple, under the value of a field, or under none."""
    return KafkaBolt().with_topic_selector(topic).with_tuple_to_kafka_mapper(JsonMapper(key))


class JsonMapper:
    """A tuple's fields as an object of JSON."""

    def __init__(self, key: str | None = None) -> None:
        self._key = key

    def get_key_from_tuple(self, tuple: Tuple) -> Any:
        """The value of the key field."""
        return None if self._key is None else tuple[self._key]

    def get_message_from_tuple(self, tuple: Tuple) -> bytes:
        """All fields, the key's among them."""
        return msgspec.json.encode(tuple.as_dict())

    def columns_of_batch(self, batch: TupleBatch) -> tuple[list[Any], list[Any]]:
        """The same of a frame."""
        encode, names = msgspec.json.Encoder().encode, batch.source.fields.names
        keys = [None] * len(batch) if self._key is None else batch[self._key]
        return keys, [encode(dict(zip(names, row, strict=True))) for row in batch.rows()]
