"""Creates a topology's topics, once and exactly, and refuses to run on others.

The partition count of a topic is the task count of its component: with another count, tuples of one key would go to two
tasks, or acks to an acker that never saw the init. So a service that finds another count stops, and says both numbers.
"""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.cimpl import NewTopic

from kstorm.core.sizes import MAX_RECORD_BYTES
from kstorm.errors import BrokerError, TopicError
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.beginnings import commit_beginnings
from kstorm.runtime.kafka.topic_settings import plans
from kstorm.runtime.service.settings import Settings
from kstorm.topology import Topology

_TIMEOUT = 20.0


class EnsuredTopics(NamedTuple):
    """What was found, and what was made."""

    created: list[str]
    all: Collection[str]
    """Whatever Kafka has, other topologies' too."""


def ensure_topics(topology: Topology, settings: Settings) -> EnsuredTopics:
    """Creates the topics that are missing, then checks all. Safe to call from many processes. With exactly once the groups of the
    bolts learn where to begin in what is new (`commit_beginnings`).

    Raises `TopicError` on a wrong partition count or a changelog that would lose what it holds, `BrokerError` if no broker
    answers.
    """
    admin = Admin(settings)
    existing = admin.partition_counts()
    wanted = plans(topology, settings.replication_factor)
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
    commit_beginnings(topology, settings)
    return EnsuredTopics(created, found.keys())


def create_topic(
    settings: Settings, topic: str, partitions: int, config: Mapping[str, str] | None = None
) -> bool:
    """Creates a topic, and waits until a client finds it; False if it is there already, whatever its partitions. Raises
    `BrokerError`, or `TopicError` if it does not appear."""
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
    """Waits for Kafka's answer; False if the topic is there already. Raises `BrokerError` if Kafka would not create it."""
    try:
        answer.result()
    except KafkaException as error:
        if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
            return False
        raise BrokerError(
            f"Kafka would not create the topic {name!r}: {error.args[0].str()}"
        ) from None
    return True


def _check(
    topology: Topology, admin: Admin, wanted: dict[str, int], found: dict[str, int]
) -> dict[str, int]:
    """A topic just created may not be in the metadata yet: wait for it, then compare. Returns all that there are."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        wrong = {name: count for name, count in wanted.items() if found.get(name) != count}
        if not wrong:
            return found
        for name, count in wrong.items():
            if found.get(name):
                raise TopicError(
                    f"topic {name!r} has {found[name]} partitions, but topology {topology.name!r} has {count} tasks there: "
                    "a task count cannot change while a topology lives; use the old number, or another topology name"
                )
        _rest_until(deadline, *wrong)
        found = admin.partition_counts()


def _check_changelogs(topology: Topology, admin: Admin, names: list[str]) -> None:
    """Those that somebody else made, or changed: state is read from the whole log, so nothing may be deleted from it by age."""
    for name, found in admin.topic_settings(names).items() if names else ():
        policy, most = found["cleanup.policy"], int(found["max.message.bytes"])
        if policy != "compact":
            raise TopicError(
                f"topic {name!r} has cleanup.policy={policy}, and topology {topology.name!r} keeps state there, which Kafka would "
                "delete by age: set cleanup.policy=compact if it has not deleted any yet; else stop the topology and delete the "
                "topic, which is made again as it must be, and is empty then"
            )
        if most < MAX_RECORD_BYTES:
            raise TopicError(
                f"topic {name!r} has max.message.bytes={most}, and one record of the state that topology {topology.name!r} keeps "
                f"there may have {MAX_RECORD_BYTES}: set max.message.bytes={MAX_RECORD_BYTES}"
            )


def _rest_until(deadline: float, *topics: str) -> None:
    if time.monotonic() > deadline:
        raise TopicError(
            f"topics did not appear within {_TIMEOUT:.0f} s of being created: {', '.join(topics)}"
        )
    time.sleep(0.05)


class ChangelogFacts(NamedTuple):
    """What a copy of a changelog depends on."""

    topic_id: bytes
    tombstone_secs: float
    """Seconds for which a deletion is kept at least (`delete.retention.ms`)."""


def changelog_facts(topic: str, settings: Settings) -> ChangelogFacts:
    """Asks Kafka; raises `BrokerError`."""
    admin = Admin(settings)
    kept = admin.topic_settings([topic])[topic]["delete.retention.ms"]
    return ChangelogFacts(_topic_id(topic, admin), int(kept) / 1000)


def topic_id(topic: str, settings: Settings) -> bytes:
    """The 16 bytes that name this incarnation of a topic: a topic deleted and created again has others."""
    return _topic_id(topic, Admin(settings))


def _topic_id(topic: str, admin: Admin) -> bytes:
    try:
        described = admin.client.describe_topics(
            TopicCollection([topic]), request_timeout=_TIMEOUT
        )[topic].result()
    except KafkaException as error:
        raise BrokerError(
            f"Kafka would not describe the topic {topic!r}: {error.args[0].str()}"
        ) from None
    uuid = described.topic_id
    halves: tuple[int, int] = (uuid.get_most_significant_bits(), uuid.get_least_significant_bits())
    return b"".join((half & (1 << 64) - 1).to_bytes(8, "big") for half in halves)
