"""Protobuf messages of a schema registry."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kstorm.errors import ConfigError
from kstorm.fitting import Positive, Text, checked
from kstorm.formats import PROTOBUF
from kstorm.kafka.message_limits import MOST_VALUES
from kstorm.registry.config import SchemaRegistry, imported
from kstorm.registry.schemes import NO_SUBJECT, RegistryScheme
from kstorm.registry.serializers import RegistrySerializer

if TYPE_CHECKING:
    from kstorm.registry.client import NonBlockingRegistryClient
    from kstorm.registry.protobuf_values import ProtobufValueLimit


class ProtobufScheme(RegistryScheme):
    """Protobuf messages: `ProtobufScheme(registry, WordCount, "word", "count")`.

    `message_type` is a generated class. Scalars stay as they are, nested messages become dicts, and
    repeated fields become lists. Raises `ConfigError` if the class lacks one of the fields.
    """

    format = PROTOBUF

    @checked()
    def __init__(
        self,
        registry: SchemaRegistry,
        message_type: Any,
        *fields: Text,
        most_values: Positive = MOST_VALUES,
    ) -> None:
        super().__init__(registry, *fields, most_values=most_values)
        self.message_type = message_type
        known = message_type.DESCRIPTOR.fields_by_name
        if unknown := [name for name in fields if name not in known]:
            raise ConfigError(
                f"{message_type.DESCRIPTOR.full_name} has no field {unknown[0]!r}, only "
                f"{', '.join(known)}"
            )

    def _make(
        self, deserializer: Any, client: "NonBlockingRegistryClient"
    ) -> Callable[[bytes, None], Any]:
        self._plain: Callable[[Any], Any] = imported("kstorm.registry.protobuf_values", "plain")
        self._extent: ProtobufValueLimit = imported(
            "kstorm.registry.protobuf_values", "ProtobufValueLimit"
        )(client, self.message_type, self.most_values)
        made: Callable[[bytes, None], Any] = deserializer(
            self.message_type, dict(NO_SUBJECT), client
        )
        return made

    def _check(self, value: bytes) -> None:
        self._extent.check(value)

    def _members(self, record: Any) -> Mapping[str, Any]:
        return {name: self._plain(getattr(record, name)) for name in self.output_fields}


class ProtobufSerializer(RegistrySerializer):
    """Protobuf of a generated class. A value is a message or a dict of its fields.

    `properties` are those of confluent-kafka's `ProtobufSerializer`.
    """

    format = PROTOBUF

    @checked()
    def __init__(
        self,
        registry: SchemaRegistry,
        message_type: Any,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(registry, properties)
        self.message_type = message_type

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return (
            None
            if value is None
            else super().serialize(topic, self._message_of(self.message_type, value))
        )

    def _make(
        self, serializer: Any, client: "NonBlockingRegistryClient", properties: dict[str, Any]
    ) -> Callable[[Any, Any], bytes | None]:
        self._message_of: Callable[[Any, Any], Any] = imported(
            "kstorm.registry.protobuf_values", "message_of"
        )
        made: Callable[[Any, Any], bytes | None] = serializer(self.message_type, client, properties)
        return made
