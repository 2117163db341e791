"""Orders to a `KafkaSpout`: to emit a message again that is among the dead letters, at its own coordinates.

They lie in the topic `<topology>.__orders` under the keys of the letters. An order is open until a tombstone ends it.
"""

from typing import Final, NamedTuple

import msgspec

from kstorm.texts import decode_json

FAILED: Final = b"failed:"
"""How the keys of failures begin."""


class Order(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the topic."""

    number: int
    """Of the letter."""
    topic: str
    partition: int
    offset: int
    value: bytes | None = None
    key: bytes | None = None
    headers: list[tuple[str, str | None]] = []
    timestamp: int = 0
    """Of the message, in ms since 1970; 0 if it has none."""
    attempts: int = 0
    """How often it was tried so far."""
    replays: int = 1
    """The how many-th replay it is."""
    after: int = 0
    """Not to be carried out before this, in ms since 1970."""
    who: str = ""
    note: str = ""
    batch: str = ""
    """The same for orders that were given together and go by stages; empty: it goes alone."""
    stage: int = 0
    """Of its batch, from 0 on; it waits until no order of an earlier one is open."""
    stages: list[int] = []
    """How many orders each stage of the batch has, for this spout."""
    pace: int = 0
    """Not to be carried out before its stage is so old, in ms."""

    @property
    def message(self) -> "OrderedMessage":
        """As the spout's scheme gets it."""
        return OrderedMessage(self)


class OrderedMessage(NamedTuple):
    """The message of an order, as if it were read."""

    order: Order

    def topic(self) -> str:
        """The topic it is in."""
        return self.order.topic

    def partition(self) -> int:
        """The partition it is in."""
        return self.order.partition

    def offset(self) -> int:
        """Its offset there."""
        return self.order.offset

    def key(self) -> bytes | None:
        """Its key, if it has one."""
        return self.order.key

    def value(self) -> bytes | None:
        """Its value."""
        return self.order.value

    def headers(self) -> list[tuple[str, str | bytes | None]] | None:
        """Its headers; None if it has none."""
        return list(self.order.headers) or None

    def timestamp(self) -> tuple[int, int]:
        """The time that it had, as if its producer had set it."""
        return (1, self.order.timestamp) if self.order.timestamp else (0, 0)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the topic: an order of a batch has failed again. It is there until no order of the batch is open."""

    batch: str
    stage: int
    topic: str
    partition: int


def encode_failure(order: Order) -> bytes:
    """The value of the record that an order has failed."""
    return msgspec.json.encode(
        Failure(batch=order.batch, stage=order.stage, topic=order.topic, partition=order.partition)
    )


def decode_failure(data: bytes) -> Failure:
    """Reads one back; raises `FrameError` if it is none."""
    return decode_json(data, Failure, "no failure of an order")


def failure_key(order: Order, key: bytes) -> bytes:
    """Of the record that the order with this key has failed. No topic's name has a colon."""
    return b"%s%s:%s" % (FAILED, order.batch.encode(), key)


def encode_order(order: Order) -> bytes:
    """The record's value."""
    return msgspec.json.encode(order)


def decode_order(data: bytes) -> Order:
    """Reads an order back; raises `FrameError` if it is none."""
    return decode_json(data, Order, "no order")
