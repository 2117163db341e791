"""Explains why brokers cannot store transactions or group offsets.

Both are stored as records in internal topics. The brokers create these topics on first use,
according to the brokers' settings. If that fails, clients only receive "try again" errors. If the
user may not read these settings, the message names the ones to check.
"""

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined] # its stubs hide some

from kstorm.errors import KstormError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin

_ANSWER_SECS: Final = 5.0
_PATIENCE_SECS: Final = 50.0
# Longest wait if there are fewer brokers than replicas, because more may be starting.
_STARTING_SECS: Final = 20.0
_MIN_ISR: Final = "min.insync.replicas"


class InternalTopic(NamedTuple):
    """An internal topic of Kafka, and the broker settings from which it is created."""

    name: str
    replication: str
    min_isr: str
    """Becomes the topic's `min.insync.replicas`."""


TRANSACTIONS: Final = InternalTopic(
    "__transaction_state",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
OFFSETS: Final = InternalTopic("__consumer_offsets", "offsets.topic.replication.factor", _MIN_ISR)


def permanent_problem(topic: InternalTopic, settings: Settings, since: float) -> str:
    """Return the problem and its remedy once further waiting is useless, or "".

    `since` is the time of the first request. Brokers that are restarting get time to finish. Blocks
    for some seconds.
    """
    waited = time.monotonic() - since
    if waited < _STARTING_SECS:
        return ""
    found = _problem(topic, settings)
    return found.reason if found.lasting or waited > _PATIENCE_SECS else ""


class _Problem(NamedTuple):
    reason: str
    lasting: bool
    """True if the topic cannot be created, so that the return of a broker would not help."""


def _problem(topic: InternalTopic, settings: Settings) -> _Problem:
    """Find the problem, if this user's rights permit it."""
    try:
        admin = Admin(settings)
        brokers = set(admin.client.list_topics(timeout=_ANSWER_SECS).brokers)
    except (KafkaException, KstormError):
        return _Problem("no broker responds", lasting=False)
    partitions = _partitions(topic.name, admin)
    if partitions is None:
        return _missing(
            topic, len(brokers), _settings(admin, ResourceType.BROKER, str(min(brokers, default=1)))
        )
    needed = int(_settings(admin, ResourceType.TOPIC, topic.name).get(_MIN_ISR) or 0)
    for partition in partitions:
        replicas, in_sync = (
            {node.id for node in nodes} for nodes in (partition.replicas, partition.isr)
        )
        if partition.leader is None or partition.leader.id not in brokers or len(in_sync) < needed:
            return _Problem(
                f"its topic {topic.name!r} has {len(in_sync)} of {len(replicas)} replicas in sync "
                f"in partition {partition.id}"
                + (f", but needs {needed} ({topic.min_isr})" if needed else "")
                + f": {remedy(replicas, in_sync, brokers)}",
                lasting=False,
            )
    return _Problem(
        f"look into the brokers' logs for its topic {topic.name!r}: {topic.replication} must not "
        f"exceed the number of brokers ({len(brokers)}), and {topic.min_isr} must not exceed the "
        "replicas in sync",
        lasting=False,
    )


def remedy(replicas: set[int], in_sync: set[int], brokers: set[int]) -> str:
    """Return a remedy for a partition with too few in-sync replicas or without a leader."""
    if away := sorted(replicas - brokers):
        return f"start the brokers {', '.join(map(str, away))}"
    if behind := sorted(replicas - in_sync):
        return (
            f"the brokers {', '.join(map(str, behind))} are running but have not caught up yet: "
            "try again, or look into their logs"
        )
    return f"lower its {_MIN_ISR}"


def _missing(topic: InternalTopic, brokers: int, found: Mapping[str, str]) -> _Problem:
    wanted = int(found.get(topic.replication) or 0)
    if wanted <= brokers:
        return _Problem(
            f"its topic {topic.name!r} does not exist: look into the brokers' logs for the "
            f"reason; {topic.replication} must not exceed the number of brokers ({brokers})",
            lasting=False,
        )
    return _Problem(
        f"the brokers have {topic.replication}={wanted}, but there "
        f"{'is only 1' if brokers == 1 else f'are only {brokers}'}, so its topic {topic.name!r} "
        f"cannot be created: start {wanted - brokers} more, or set it to {brokers} and restart "
        "them",
        lasting=True,
    )


def broker_setting(name: str, settings: Settings) -> str:
    """Return a broker's setting, or "" if this user may not read it. Blocks for some seconds."""
    try:
        admin = Admin(settings)
        brokers = admin.client.list_topics(timeout=_ANSWER_SECS).brokers
    except (KafkaException, KstormError):
        return ""
    return _settings(admin, ResourceType.BROKER, str(min(brokers, default=1))).get(name) or ""


def _partitions(topic: str, admin: Admin) -> list[Any] | None:
    """Return None if the topic does not exist, and no partitions if this user may not read it."""
    asked = admin.client.describe_topics(TopicCollection([topic]), request_timeout=_ANSWER_SECS)
    try:
        return list(asked[topic].result().partitions)
    except KafkaException as error:
        return None if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART else []


def _settings(admin: Admin, kind: ResourceType, name: str) -> dict[str, str]:
    resource = ConfigResource(kind, name)
    try:
        found = admin.client.describe_configs([resource], request_timeout=_ANSWER_SECS)[
            resource
        ].result()
    except KafkaException:
        return {}
    return {name: entry.value for name, entry in found.items()}
