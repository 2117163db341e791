"""Converts Protobuf values to values that MessagePack supports, and back. Checks their number."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.schema_registry.serde import SchemaId
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from kstorm.formats import PROTOBUF
from kstorm.formats.protobuf_plan import MessageTypes
from kstorm.formats.protobuf_scan import TooLargeError, count
from kstorm.formats.varint import DamagedError

if TYPE_CHECKING:
    from kstorm.registry.client import NonBlockingRegistryClient

_SHORTEST: Final = 6


def plain(value: Any) -> Any:
    """Convert messages and maps to dicts, and repeated fields to lists. Scalars stay as they are.

    Dicts of messages use the original field names.
    """
    if isinstance(value, Message):
        return MessageToDict(value, preserving_proto_field_name=True)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(each) for each in value]
    return value


def message_of(message_type: Any, value: Any) -> Message:
    """Build a message from a dict of its fields. Returns messages unchanged."""
    found: Message = value if isinstance(value, Message) else ParseDict(value, message_type())
    return found


class ProtobufValueLimit:
    """Checks messages of one class before they are decoded and converted. Short ones are not
    scanned."""

    def __init__(self, client: "NonBlockingRegistryClient", message_type: Any, most: int) -> None:
        """`most`: maximum number of values of a message."""
        self._client = client
        self._kinds = MessageTypes(message_type.DESCRIPTOR)
        self._most = most
        self._harmless = 0 if self._kinds.is_open else self._kinds.harmless(most)

    def check(self, data: bytes) -> None:
        """Raise `ValueError` if the message has too many values or is nested too deeply.

        Raises `NotYetError` while the registry has not returned the schema.
        """
        if len(data) < max(_SHORTEST, self._harmless) or data[0] > 1:
            return
        told = SchemaId(PROTOBUF.kind)
        start = told.from_bytes(BytesIO(data)).tell()
        # Ask for the schema first: until it is available, the message is retried and need not be
        # scanned.
        if told.id is None:
            self._client.get_schema_by_guid(str(told.guid), PROTOBUF.schema_form)
        else:
            self._client.get_schema(told.id, None, PROTOBUF.schema_form)
        try:
            count(self._kinds, data, start, self._most)
        except (TooLargeError, DamagedError) as error:
            # A dead letter's reason names the type of the error.
            raise ValueError(str(error)) from None
