"""Classifies client errors as temporary or final, and raises the errors that lists of partitions
contain."""

from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kstorm.errors import BrokerError, NoBrokerError

NOT_ALLOWED: Final = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
_UNANSWERED: Final = (
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.REQUEST_TIMED_OUT,
)


def broker_error(failed: str, error: KafkaError, remedy: str = "") -> BrokerError:
    """Return the error of a request that failed. It is a `NoBrokerError` if Kafka did not respond."""
    kind = NoBrokerError if error.code() in _UNANSWERED else BrokerError
    return kind(f"{failed}: {error.str()} ({error.name()}){remedy}")


def raise_if_final(error: KafkaError, topic: str, group: str | None = None) -> None:
    """Raise `BrokerError` for an error after which this consumer can never read `topic`.

    `group` is its consumer group, if it is a member of one.
    """
    if error.code() in NOT_ALLOWED:
        as_whom, both = (
            ("", "the topic") if group is None else (f" as a member of the group {group!r}", "both")
        )
        raise BrokerError(
            f"Kafka does not let this user read {topic!r}{as_whom}: {error.str()}; allow it READ "
            f"on {both}"
        )
    if error.fatal() or error.code() == KafkaError._FATAL:
        raise BrokerError(f"reading {topic!r} failed permanently: {error.str()}")


def raise_first_error(places: Iterable[TopicPartition]) -> None:
    """Raise the first partition's error as a `KafkaException`."""
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
