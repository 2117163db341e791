"""JSON messages of a schema registry."""

from typing import Any

from kstorm.formats import JSON_SCHEMA
from kstorm.kafka.message_limits import check_json
from kstorm.kafka.serializer import refuse_not_finite
from kstorm.registry.schemes import SchemaScheme
from kstorm.registry.serializers import SchemaSerializer


class JsonSchemaScheme(SchemaScheme):
    """Validated JSON objects: `JsonSchemaScheme(registry, "word", "count")`.

    `schema` is the reader's schema as JSON. None: the writer's schema.
    """

    def _check(self, value: bytes) -> None:
        check_json(value, self.most_values)

    format = JSON_SCHEMA


class JsonSchemaSerializer(SchemaSerializer):
    """Validated JSON. `properties` are those of confluent-kafka's `JSONSerializer`.

    NaN and infinities fail their tuple.
    """

    format = JSON_SCHEMA

    def serialize(self, topic: str, value: Any) -> bytes | None:
        # confluent-kafka writes NaN, which is not JSON, or null if orjson is installed.
        refuse_not_finite(value)
        return super().serialize(topic, value)
