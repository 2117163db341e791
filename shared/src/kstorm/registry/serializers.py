"""Serializers that register their schema and write by it: Avro, JSON Schema, Protobuf. The subject is `<topic>-value`, or `-key`.

A value is a dict, as tuples have them. Until the registry has given the schema's id, `serialize` raises `NotYetError`, and the
`KafkaBolt` keeps the tuple.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kstorm.errors import ConfigError
from kstorm.registry.config import SchemaRegistry, imported

if TYPE_CHECKING:
    from kstorm.registry.client import AskingClient

_CONFLUENT = "confluent_kafka.schema_registry"


class _RegistrySerializer:
    """What the three have in common; a copy that was not opened holds no connection."""

    def __init__(self, registry: SchemaRegistry, properties: Mapping[str, Any] | None) -> None:
        self.registry = registry
        self.properties = dict(properties or {})
        self._client: AskingClient | None = None
        self._write: Callable[[Any, Any], bytes | None]
        self._contexts: dict[str, Any] = {}

    def open(self, is_key: bool) -> None:
        """Makes a client of the registry, which is not asked yet. Raises `ConfigError` without the extra `registry`."""
        serializer = imported(*self._serializer)
        serialization = "confluent_kafka.serialization"
        context, kinds = (
            imported(serialization, "SerializationContext"),
            imported(serialization, "MessageField"),
        )
        kind = kinds.KEY if is_key else kinds.VALUE
        self._context: Callable[[str], Any] = lambda topic: context(topic, kind)
        self._client = self.registry.client()
        try:
            self._write = self._make(
                serializer, self._client, {"subject.name.strategy.type": "TOPIC", **self.properties}
            )
        except Exception as error:  # noqa: BLE001 - each library has errors of its own
            self._client.close()
            raise ConfigError(
                f"{type(self).__name__} cannot use its schema or properties: {error}"
            ) from None

    def close(self) -> None:
        """Closes the client."""
        if self._client is not None:
            self._client.close()

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """The record's bytes; None is none. Raises `NotYetError`, or whatever is wrong with the value or its schema."""
        context = self._contexts.get(topic)
        if context is None:
            context = self._contexts[topic] = self._context(topic)
        return self._write(value, context)

    _serializer: ClassVar[tuple[str, str]]

    def _make(
        self, serializer: Any, client: "AskingClient", properties: dict[str, Any]
    ) -> Callable[[Any, Any], bytes | None]:
        raise NotImplementedError


class _SchemaSerializer(_RegistrySerializer):
    """Of those whose schema is a text; confluent-kafka's two take the same arguments, in another order."""

    def __init__(
        self, registry: SchemaRegistry, schema: str, properties: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(registry, properties)
        self.schema = schema

    def _make(
        self, serializer: Any, client: "AskingClient", properties: dict[str, Any]
    ) -> Callable[[Any, Any], bytes | None]:
        made: Callable[[Any, Any], bytes | None] = serializer(
            schema_registry_client=client, schema_str=self.schema, conf=properties
        )
        return made


class AvroSerializer(_SchemaSerializer):
    """Avro by a schema, as JSON. `properties` are those of confluent-kafka's `AvroSerializer`."""

    _serializer = (f"{_CONFLUENT}.avro", "AvroSerializer")


class JsonSchemaSerializer(_SchemaSerializer):
    """JSON, validated by a schema. `properties` are those of confluent-kafka's `JSONSerializer`."""

    _serializer = (f"{_CONFLUENT}.json_schema", "JSONSerializer")


class ProtobufSerializer(_RegistrySerializer):
    """Protobuf by a generated class; a value is a message, or a dict of its fields. `properties` are those of confluent-kafka's."""

    _serializer = (f"{_CONFLUENT}.protobuf", "ProtobufSerializer")

    def __init__(
        self,
        registry: SchemaRegistry,
        message_type: Any,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(registry, properties)
        self.message_type = message_type

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """See `_RegistrySerializer.serialize`."""
        return (
            None
            if value is None
            else super().serialize(topic, self._message_of(self.message_type, value))
        )

    def _make(
        self, serializer: Any, client: "AskingClient", properties: dict[str, Any]
    ) -> Callable[[Any, Any], bytes | None]:
        self._message_of: Callable[[Any, Any], Any] = imported(
            "kstorm.registry.messages", "message_of"
        )
        made: Callable[[Any, Any], bytes | None] = serializer(self.message_type, client, properties)
        return made
