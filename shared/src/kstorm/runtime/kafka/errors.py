"""What a client's error means: whether it passes, or reading is over for good; and the errors in lists of partitions."""

from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kstorm.errors import BrokerError

NOT_ALLOWED: Final = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def raise_if_final(error: KafkaError, topic: str, group: str | None = None) -> None:
    """Raises `BrokerError` for an error after which this consumer will never read `topic`; `group` is the consumer group that
    it is a member of, if it is."""
    if error.code() in NOT_ALLOWED:
        as_whom, both = ("", "it") if group is None else (f" as one of the group {group!r}", "both")
        raise BrokerError(
            f"Kafka lets this user not read {topic!r}{as_whom}: {error.str()}; allow it READ on {both}"
        )
    if error.fatal() or error.code() == KafkaError._FATAL:
        raise BrokerError(f"reading {topic!r} failed for good: {error.str()}")


def raise_first_error(places: Iterable[TopicPartition]) -> None:
    """Raises the error of the first partition that has one as a `KafkaException`."""
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
