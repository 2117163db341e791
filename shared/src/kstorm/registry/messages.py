"""Protobuf's values as MessagePack has them, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message


def plain(value: Any) -> Any:
    """Scalars as they are; messages as dicts, with their fields' own names; repeated fields as lists, maps as dicts."""
    if isinstance(value, Message):
        return MessageToDict(value, preserving_proto_field_name=True)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(each) for each in value]
    return value


def message_of(message_type: Any, value: Any) -> Message:
    """A message of a dict of its fields; one that is a message already stays."""
    found: Message = value if isinstance(value, Message) else ParseDict(value, message_type())
    return found
