"""The event time of a spout's position, in the metadata of the committed offset."""

from typing import Final

from confluent_kafka import TopicPartition

from kstorm.topology.positioned import Position

_REACHED: Final = "reached="


def noted(place: tuple[str, int], position: int) -> TopicPartition:
    """Return an offset to commit. Its metadata has the event time of the position, if it has any."""
    if isinstance(position, Position) and position.reached is not None:
        return TopicPartition(*place, int(position), f"{_REACHED}{position.reached}")
    return TopicPartition(*place, position)


def with_note(offset: int, metadata: str | None) -> int:
    """Return a committed offset with the event time in its metadata, if there is any."""
    text = (metadata or "").rstrip("\0")
    number = text.removeprefix(_REACHED)
    if number == text or not number.removeprefix("-").isdecimal():
        return offset
    return Position.of(offset, int(number))
