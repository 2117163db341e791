"""Base of the serializers that register their schema.

The subject is `<topic>-value` or `<topic>-key`. Values are dicts, as in tuples. Until the registry
has returned the schema's id, `serialize` raises `NotYetError`, and the `KafkaBolt` holds the tuple.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kstorm.errors import ConfigError
from kstorm.fitting import Text, checked
from kstorm.formats import RegistryFormat
from kstorm.registry.config import SchemaRegistry, imported

if TYPE_CHECKING:
    from kstorm.registry.client import NonBlockingRegistryClient


class RegistrySerializer:
    """Base of the serializers. An unopened copy holds no connection."""

    @checked()
    def __init__(self, registry: SchemaRegistry, properties: Mapping[str, Any] | None) -> None:
        self.registry = registry
        self.properties = dict(properties or {})
        self._client: NonBlockingRegistryClient | None = None
        self._write: Callable[[Any, Any], bytes | None]
        self._contexts: dict[str, Any] = {}

    def open(self, is_key: bool) -> None:
        """Create the client. Raises `ConfigError` without the extra `registry`.

        It does not connect yet.
        """
        serializer = imported(*self.format.serializer)
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
        except Exception as error:  # noqa: BLE001 - each library raises its own errors
            self._client.close()
            raise ConfigError(
                f"{type(self).__name__} cannot use its schema or properties: {error}"
            ) from None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return the record's bytes, or None for None. Raises `NotYetError` without a schema id.

        Raises other errors if the value or its schema is invalid.
        """
        context = self._contexts.get(topic)
        if context is None:
            context = self._contexts[topic] = self._context(topic)
        return self._write(value, context)

    format: ClassVar[RegistryFormat]

    def _make(
        self, serializer: Any, client: "NonBlockingRegistryClient", properties: dict[str, Any]
    ) -> Callable[[Any, Any], bytes | None]:
        raise NotImplementedError


class SchemaSerializer(RegistrySerializer):
    """Base of the serializers whose schema is a string. confluent-kafka's two classes take the same
    arguments in a different order, so they are passed by keyword."""

    @checked()
    def __init__(
        self, registry: SchemaRegistry, schema: Text, properties: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(registry, properties)
        self.schema = schema

    def _make(
        self, serializer: Any, client: "NonBlockingRegistryClient", properties: dict[str, Any]
    ) -> Callable[[Any, Any], bytes | None]:
        made: Callable[[Any, Any], bytes | None] = serializer(
            schema_registry_client=client, schema_str=self.schema, conf=properties
        )
        return made
