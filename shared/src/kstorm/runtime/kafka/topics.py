"""Creates a topology's topics exactly as needed, and rejects existing ones that do not fit.

The partition count of a topic is the task count of its component. With another count, tuples with
the same key could go to different tasks, or acks to an acker that never received the init. So a
process that finds another count exits with an error that contains both numbers.
"""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.cimpl import NewTopic

from kstorm.core.record_size import MAX_RECORD_BYTES
from kstorm.errors import TopicError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.client_errors import broker_error
from kstorm.runtime.kafka.start_offsets import commit_start_offsets
from kstorm.runtime.kafka.topic_settings import topic_plans
from kstorm.topology import Topology

_TIMEOUT = 20.0


class EnsuredTopics(NamedTuple):
    created: list[str]
    all: Collection[str]
    """All topics in Kafka, including those of other topologies."""


def ensure_topics(topology: Topology, settings: Settings) -> EnsuredTopics:
    """Create missing topics, then check all. May be called from many processes.

    With exactly-once processing, it also commits the bolt groups' start offsets in new topics
    (`commit_start_offsets`). Raises `TopicError` for a wrong partition count or a changelog whose
    settings lose data, and `BrokerError` if no broker responds.
    """
    admin = Admin(settings)
    existing = admin.partition_counts()
    wanted = topic_plans(topology, settings.replication_factor)
    missing = [
        NewTopic(name, plan.partitions, settings.replication_factor, config=dict(plan.settings))
        for name, plan in wanted.items()
        if name not in existing
    ]
    created = [
        name
        for name, future in (admin.client.create_topics(missing) if missing else {}).items()
        if _was_created(name, future)
    ]
    found = _check(
        topology, admin, {name: plan.partitions for name, plan in wanted.items()}, existing
    )
    _check_changelogs(
        topology, admin, [name for name in topology.changelogs() if name not in created]
    )
    commit_start_offsets(topology, settings)
    return EnsuredTopics(created, found.keys())


def create_topic(
    settings: Settings, topic: str, partitions: int, config: Mapping[str, str] | None = None
) -> bool:
    """Create a topic and wait until it is visible. Returns False if it exists already.

    An existing topic's partition count is not checked. Raises `BrokerError`, or `TopicError` if the
    new topic does not appear.
    """
    admin = Admin(settings)
    new = NewTopic(topic, partitions, settings.replication_factor, config=dict(config or {}))
    created = _was_created(
        topic, admin.client.create_topics([new], request_timeout=_TIMEOUT)[topic]
    )
    deadline = time.monotonic() + _TIMEOUT
    while not admin.partition_counts().get(topic):
        _rest_until(deadline, topic)
    return created


def _was_created(name: str, answer: "Future[None]") -> bool:
    """Wait for Kafka's response. Returns False if the topic exists already.

    Raises `BrokerError` if Kafka rejects it.
    """
    try:
        answer.result()
    except KafkaException as error:
        if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
            return False
        raise broker_error(f"Kafka did not create the topic {name!r}", error.args[0]) from None
    return True


def _check(
    topology: Topology, admin: Admin, wanted: dict[str, int], found: dict[str, int]
) -> dict[str, int]:
    """Wait until all topics appear in the metadata, and then check them. Returns all topics."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        wrong = {name: count for name, count in wanted.items() if found.get(name) != count}
        if not wrong:
            return found
        for name, count in wrong.items():
            if found.get(name):
                raise TopicError(
                    f"topic {name!r} has {found[name]} partitions, but topology {topology.name!r} "
                    f"has {count} tasks there: a task count cannot change while a topology lives; "
                    "use the old number, or another topology name"
                )
        _rest_until(deadline, *wrong)
        found = admin.partition_counts()


def _check_changelogs(topology: Topology, admin: Admin, names: list[str]) -> None:
    """Check existing changelogs. State is read from the whole log, so Kafka must not delete old
    records."""
    for name, found in admin.topic_settings(names).items() if names else ():
        policy, most = found["cleanup.policy"], int(found["max.message.bytes"])
        if policy != "compact":
            raise TopicError(
                f"topic {name!r} has cleanup.policy={policy}, but topology {topology.name!r} "
                "keeps state there, which Kafka would delete by age. If it has not deleted any "
                "yet, set cleanup.policy=compact. Otherwise stop the topology and delete the "
                "topic: kstorm creates it again, empty and with the right settings"
            )
        if most < MAX_RECORD_BYTES:
            raise TopicError(
                f"topic {name!r} has max.message.bytes={most}, but a record of the state that "
                f"topology {topology.name!r} keeps there may have {MAX_RECORD_BYTES}: set "
                f"max.message.bytes={MAX_RECORD_BYTES}"
            )


def _rest_until(deadline: float, *topics: str) -> None:
    if time.monotonic() > deadline:
        raise TopicError(
            f"topics did not appear within {_TIMEOUT:.0f} s of being created: {', '.join(topics)}"
        )
    time.sleep(0.05)


class ChangelogFacts(NamedTuple):
    """Properties of a changelog that a copy of it depends on."""

    topic_id: bytes
    tombstone_secs: float
    """Minimum seconds for which a tombstone is kept (`delete.retention.ms`)."""


def changelog_facts(topic: str, settings: Settings) -> ChangelogFacts:
    """Query the facts from Kafka. Raises `BrokerError`."""
    admin = Admin(settings)
    try:
        kept = admin.topic_settings([topic])[topic]["delete.retention.ms"]
        return ChangelogFacts(_topic_id(topic, admin), int(kept) / 1000)
    finally:
        admin.close()


def topic_id(topic: str, settings: Settings) -> bytes:
    """Return a topic's 16-byte id, which changes when the topic is deleted and recreated."""
    return _topic_id(topic, Admin(settings))


def _topic_id(topic: str, admin: Admin) -> bytes:
    try:
        described = admin.client.describe_topics(
            TopicCollection([topic]), request_timeout=_TIMEOUT
        )[topic].result()
    except KafkaException as error:
        raise broker_error(f"Kafka did not describe the topic {topic!r}", error.args[0]) from None
    uuid = described.topic_id
    halves: tuple[int, int] = (uuid.get_most_significant_bits(), uuid.get_least_significant_bits())
    return b"".join((half & (1 << 64) - 1).to_bytes(8, "big") for half in halves)
