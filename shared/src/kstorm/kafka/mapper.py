"""What a `KafkaBolt` writes of a tuple, and where: Storm's `TupleToKafkaMapper` and `TopicSelector`."""

from collections.abc import Callable
from typing import Any, Protocol

from kstorm.topology import Tuple, TupleBatch

Columns = tuple[list[Any], list[Any]]
"""The keys and the messages of a frame's tuples."""


class TupleToKafkaMapper(Protocol):
    """Takes a record's key and message out of a tuple.

    For speed a class may define `columns_of_batch(batch)` besides: the keys and the messages of a whole frame, as two lists. If it
    raises, the tuples are written one by one. A subclass does not inherit it, since it may take other fields.
    """

    def get_key_from_tuple(self, tuple: Tuple) -> Any:
        """The record's key; None for none."""
        ...

    def get_message_from_tuple(self, tuple: Tuple) -> Any:
        """The record's value; None for a tombstone."""
        ...


class FieldNameBasedTupleToKafkaMapper:
    """Takes them from two fields. A tuple without the key field gives no key, as in Storm."""

    def __init__(self, key_field: str = "key", message_field: str = "message") -> None:
        self.key_field = key_field
        self.message_field = message_field

    def get_key_from_tuple(self, tuple: Tuple) -> Any:
        """The value of the key field."""
        if self.key_field not in tuple:
            return None
        return tuple[self.key_field]

    def get_message_from_tuple(self, tuple: Tuple) -> Any:
        """The value of the message field; `KeyError` if the tuple has none, which fails it."""
        return tuple[self.message_field]

    def columns_of_batch(self, batch: TupleBatch) -> Columns:
        """Two of the frame's own columns."""
        keys = (
            batch[self.key_field] if self.key_field in batch.source.fields else [None] * len(batch)
        )
        return keys, batch[self.message_field]


def columns_of_batch(mapper: TupleToKafkaMapper) -> Callable[[TupleBatch], Columns] | None:
    """The method of that name, if the mapper's own class has it."""
    return mapper.columns_of_batch if "columns_of_batch" in vars(type(mapper)) else None  # type: ignore[attr-defined]


class TopicSelector(Protocol):
    """Chooses the topic for a tuple."""

    def get_topic(self, tuple: Tuple) -> str | None:
        """The topic; None to write nothing."""
        ...


class DefaultTopicSelector:
    """One topic for all."""

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def get_topic(self, tuple: Tuple) -> str:
        """The topic."""
        return self.topic


class FieldNameTopicSelector:
    """The topic named by a field; `default` if the tuple has no such field, or no value in it."""

    def __init__(self, field: str, default: str | None = None) -> None:
        self.field = field
        self.default = default

    def get_topic(self, tuple: Tuple) -> str | None:
        """The field's value."""
        if self.field not in tuple:
            return self.default
        return tuple[self.field] or self.default


class FieldIndexTopicSelector:
    """The topic named by the value at an index; `default` if the tuple is too short, or has nothing there."""

    def __init__(self, index: int, default: str | None = None) -> None:
        self.index = index
        self.default = default

    def get_topic(self, tuple: Tuple) -> str | None:
        """The value."""
        if self.index >= len(tuple):
            return self.default
        return tuple[self.index] or self.default
