"""Base of the schemes for messages from schema registry serializers.

A scheme copies the named fields of a record to tuple fields of the same names. The record is read
with its writer's schema, and resolved to the reader's schema if one is given. A record that lacks a
named field is unreadable.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kstorm.errors import ConfigError
from kstorm.fitting import Positive, Text, checked
from kstorm.formats import RegistryFormat
from kstorm.kafka.message_limits import MOST_VALUES
from kstorm.kafka.scheme import OneTuple, Values, values_of
from kstorm.registry.config import SchemaRegistry, imported
from kstorm.topology import Fields

if TYPE_CHECKING:
    from kstorm.registry.client import NonBlockingRegistryClient


class RegistryScheme(OneTuple):
    """Base of the schemes. An unopened copy holds no connection."""

    @checked()
    def __init__(
        self, registry: SchemaRegistry, *fields: Text, most_values: Positive = MOST_VALUES
    ) -> None:
        if not fields:
            raise ConfigError(
                f"{type(self).__name__} has no fields: name the record's fields that the tuple "
                "will have"
            )
        self.registry = registry
        self.output_fields = Fields(*fields)
        self.most_values = most_values
        self._client: NonBlockingRegistryClient | None = None
        self._read: Callable[[bytes, None], Any]

    def open(self) -> None:
        """Create the client. Raises `ConfigError` without the extra `registry`.

        It does not connect yet.
        """
        deserializer = imported(*self.format.deserializer)
        self._client = self.registry.client()
        self._read = self._make(deserializer, self._client)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def deserialize(self, value: bytes) -> Values:
        """Return the fields' values. Raises `NotYetError` while the schema is not available.

        Raises other errors if the message is unreadable.
        """
        self._check(value)
        return values_of(self._members(self._read(value, None)), self.output_fields)

    format: ClassVar[RegistryFormat]

    def _make(
        self, deserializer: Any, client: "NonBlockingRegistryClient"
    ) -> Callable[[bytes, None], Any]:
        raise NotImplementedError

    def _check(self, value: bytes) -> None:
        """Raise `ValueError` if the decoded message would be too large."""
        raise NotImplementedError

    def _members(self, record: Any) -> Mapping[str, Any]:
        if not isinstance(record, dict):
            raise ValueError(f"the value is a {type(record).__name__}, not a record")
        return record


class SchemaScheme(RegistryScheme):
    """Base of the schemes whose reader's schema is a string."""

    @checked()
    def __init__(
        self,
        registry: SchemaRegistry,
        *fields: Text,
        schema: Text | None = None,
        most_values: Positive = MOST_VALUES,
    ) -> None:
        super().__init__(registry, *fields, most_values=most_values)
        self.schema = schema

    def _make(
        self, deserializer: Any, client: "NonBlockingRegistryClient"
    ) -> Callable[[bytes, None], Any]:
        try:
            made: Callable[[bytes, None], Any] = deserializer(
                schema_registry_client=client, schema_str=self.schema, conf=dict(NO_SUBJECT)
            )
        except Exception as error:  # noqa: BLE001 - each library raises its own errors
            raise ConfigError(
                f"{type(self).__name__} cannot use its reader schema: {error}"
            ) from None
        return made


def _no_subject(_context: object, _record_name: object) -> None:
    """Use no subject: the schema id is sufficient. Rules of a subject are not applied."""


NO_SUBJECT: Mapping[str, Any] = {"subject.name.strategy": _no_subject}
