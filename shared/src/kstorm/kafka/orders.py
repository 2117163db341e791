"""Orders to a `KafkaSpout`: to emit a message again that is among the dead letters, at its own coordinates.

They lie in the topic `<topology>.__orders` under the keys of the letters. An order is open until a tombstone says how it ended.
"""

from typing import NamedTuple

import msgspec

from kstorm.errors import FrameError


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


def encode_order(order: Order) -> bytes:
    """The record's value."""
    return msgspec.json.encode(order)


def decode_order(data: bytes) -> Order:
    """Reads an order back; raises `FrameError` if it is none."""
    try:
        return msgspec.json.decode(data, type=Order)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"{len(data)} bytes that are no order: {error}") from None
