"""Converts Protobuf values to values that MessagePack supports, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message


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
