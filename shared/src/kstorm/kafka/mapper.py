"""Select a `KafkaBolt`'s records and topics: Storm's `TupleToKafkaMapper` and `TopicSelector`."""

from collections.abc import Callable
from typing import Any, Protocol

from kstorm.fitting import Natural, Text, checked
from kstorm.topology import Fields, Tuple, TupleBatch

Columns = tuple[list[Any], list[Any]]
"""The keys and the messages of a frame's tuples."""


class TupleToKafkaMapper(Protocol):
    """Extracts a record's key and message from a tuple.

    For speed, a class may also define `columns_of_batch(batch)`, which returns the keys and
    messages of a whole frame as two lists. If it raises, the tuples are written one by one. kstorm
    ignores the method in a subclass that does not define it itself, because the subclass may use
    other fields.
    """

    def get_key_from_tuple(self, tuple: Tuple) -> Any:
        """Return the record's key, or None."""

    def get_message_from_tuple(self, tuple: Tuple) -> Any:
        """Return the record's value, or None for a tombstone."""


class FieldNameBasedTupleToKafkaMapper:
    """Uses two fields. As in Storm, a tuple without the key field produces a record without a key."""

    @checked()
    def __init__(self, key_field: Text = "key", message_field: Text = "message") -> None:
        self.key_field = key_field
        self.message_field = message_field

    def get_key_from_tuple(self, tuple: Tuple) -> Any:
        """Return the value of the key field, or None if the tuple lacks it."""
        if self.key_field not in tuple:
            return None
        return tuple[self.key_field]

    def get_message_from_tuple(self, tuple: Tuple) -> Any:
        """Return the message field's value. Raises `KeyError` if the tuple lacks it, so that the
        tuple fails."""
        return tuple[self.message_field]

    def columns_of_batch(self, batch: TupleBatch) -> Columns:
        """Return the keys and the messages of a batch's tuples, as the other two methods do for one."""
        keys = (
            batch[self.key_field] if self.key_field in batch.source.fields else [None] * len(batch)
        )
        return keys, batch[self.message_field]


def columns_of_batch(mapper: TupleToKafkaMapper) -> Callable[[TupleBatch], Columns] | None:
    """Return the mapper's `columns_of_batch` if its own class defines it, else None."""
    return mapper.columns_of_batch if "columns_of_batch" in vars(type(mapper)) else None  # type: ignore[attr-defined]


class TopicSelector(Protocol):
    """Selects the topic for a tuple."""

    def get_topic(self, tuple: Tuple) -> str | None:
        """Return the topic, or None to write nothing."""


class DefaultTopicSelector:
    """Selects the same topic for every tuple."""

    @checked()
    def __init__(self, topic: Text) -> None:
        self.topic = topic

    def get_topic(self, tuple: Tuple) -> str:
        return self.topic


class FieldNameTopicSelector:
    """Reads the topic from a field. Uses `default` if the tuple lacks the field or it is empty."""

    @checked()
    def __init__(self, field: Text, default: Text | None = None) -> None:
        self.field = field
        self.default = default

    def refuses(self, fields: Fields) -> str:
        """Return which field of a stream is missing, or ""."""
        missing = not self.default and self.field not in fields
        return f"takes the topic from the field {self.field!r}" if missing else ""

    def get_topic(self, tuple: Tuple) -> str | None:
        if self.field not in tuple:
            return self.default
        return tuple[self.field] or self.default


class FieldIndexTopicSelector:
    """Reads the topic from the value at an index. Uses `default` if it is missing or empty."""

    @checked()
    def __init__(self, index: Natural, default: Text | None = None) -> None:
        self.index = index
        self.default = default

    def refuses(self, fields: Fields) -> str:
        """Return which value of a stream is missing, or ""."""
        missing = not self.default and self.index >= len(fields)
        return f"takes the topic from the value at index {self.index}" if missing else ""

    def get_topic(self, tuple: Tuple) -> str | None:
        if self.index >= len(tuple):
            return self.default
        return tuple[self.index] or self.default
