"""Avro messages of a schema registry."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from kstorm.formats import AVRO
from kstorm.registry.config import imported
from kstorm.registry.schemes import SchemaScheme
from kstorm.registry.serializers import SchemaSerializer

if TYPE_CHECKING:
    from kstorm.registry.avro_limits import AvroValueLimit
    from kstorm.registry.client import NonBlockingRegistryClient


class AvroScheme(SchemaScheme):
    """Avro records: `AvroScheme(registry, "word", "count")`.

    `schema` is the reader's schema as JSON. None: the writer's schema.
    """

    format = AVRO

    def _make(
        self, deserializer: Any, client: "NonBlockingRegistryClient"
    ) -> Callable[[bytes, None], Any]:
        made: Any = super()._make(deserializer, client)
        self._extent: AvroValueLimit = imported("kstorm.registry.avro_limits", "AvroValueLimit")(
            client, made._get_parsed_schema, self.most_values
        )
        return cast("Callable[[bytes, None], Any]", made)

    def _check(self, value: bytes) -> None:
        self._extent.check(value)


class AvroSerializer(SchemaSerializer):
    """Avro with a JSON schema. `properties` are those of confluent-kafka's `AvroSerializer`."""

    format = AVRO
