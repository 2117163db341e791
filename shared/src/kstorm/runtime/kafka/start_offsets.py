"""Checks the offsets where a component's tasks resume, and commits those of new topics.

**A task starts at its group's committed offset.** An offset beyond the end of the log belongs to
another log, which is an error with every guarantee. With exactly-once processing, a missing offset
is an error too: offsets of groups expire, and starting at the first record would count everything
twice. So a new topic gets its first offset committed before anything is written to it
(`commit_start_offsets`), and an offset that is missing later was lost.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kstorm.errors import BrokerError, LostOffsetError
from kstorm.runtime.base.client_log import CLIENT_LOG
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.client_errors import raise_first_error
from kstorm.runtime.kafka.internal_topics import OFFSETS, permanent_problem
from kstorm.topology import Topology

_ANSWER_SECS: Final = 20.0
_LOOK_SECS: Final = 0.2
_END: Final = -1  # used in place of a timestamp
# Errors of a group that has members, which have already committed their start offsets.
_AT_WORK: Final = (
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.NON_EMPTY_GROUP,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
)
# All other errors are temporary, because new topics have no leader yet, and new brokers no
# coordinators.
_REFUSED: Final = (
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)


def committed_offsets(
    consumer: Consumer,
    places: Sequence[TopicPartition],
    group: str,
    settings: Settings,
    *,
    must_be_there: bool,
) -> dict[int, int]:
    """Return the offset where a group resumes, by partition.

    Without a committed offset it is 0, unless `must_be_there`. Raises `BrokerError` if Kafka does
    not respond, and `LostOffsetError` if an offset is missing or beyond the end of the log.
    """
    try:
        found = consumer.committed(list(places), timeout=_ANSWER_SECS)
        raise_first_error(found)
        begun = [
            TopicPartition(place.topic, place.partition, _END)
            for place in found
            if place.offset > 0
        ]
        ends = _ends(consumer, begun) if begun else []
    except KafkaException as error:
        raise BrokerError(
            f"the offsets of the group {group!r} cannot be read from Kafka at "
            f"{settings.bootstrap_servers}: {error.args[0].str()}"
        ) from None
    end_of = {place.partition: place.offset for place in ends}
    for place in found:
        end = end_of.get(place.partition)
        if end is not None and place.offset > end:
            raise _beyond(group, place, end, settings)
        if place.offset < 0 and must_be_there:
            raise _missing(group, place, settings)
    return {place.partition: max(0, place.offset) for place in found}


def _ends(consumer: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
    """Return the ends of logs. Waits for partitions that have no leader at the moment."""
    deadline = time.monotonic() + _ANSWER_SECS
    while True:
        try:
            ends = consumer.offsets_for_times(places, timeout=_ANSWER_SECS)
            raise_first_error(ends)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECS)
        else:
            return ends


def commit_start_offsets(topology: Topology, settings: Settings) -> None:
    """Commit start offsets for the bolts of an exactly-once topology.

    This applies to partitions of bolt topics without records and without a committed offset. Other
    partitions, and groups with members, are not changed. Every process calls this before it writes
    anything, and calls may overlap. So every partition with records has an offset, unless it was
    lost. Raises `BrokerError`.
    """
    if not topology.config.exactly_once or not topology.bolts:
        return
    tasks = {topology.bolt_topic(bolt.id): bolt.num_tasks for bolt in topology.bolts}
    with ThreadPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(_commit_beginning, *one, settings) for one in tasks.items()]:
            done.result()


def _commit_beginning(topic: str, tasks: int, settings: Settings) -> None:
    """Commit start offsets for one bolt, whose group has the same name as its topic.

    This uses a consumer, because an admin client that is closed during a request can crash or block
    the process (librdkafka 2.16.0).
    """
    consumer = Consumer(
        {
            **settings.client_config,
            "group.id": topic,
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",  # also counts records of open transactions
            "logger": CLIENT_LOG,
        }
    )
    started = time.monotonic()
    try:
        while True:
            try:
                _commit_what_is_missing(
                    consumer, [TopicPartition(topic, task) for task in range(tasks)]
                )
            except KafkaException as error:
                cause = error.args[0]
                if cause.code() in _REFUSED:
                    raise BrokerError(
                        f"Kafka did not let the bolt of the topic {topic!r} start: {cause.str()}; "
                        "this needs the right READ on the group and the topic of that name"
                    ) from None
                if why := permanent_problem(OFFSETS, settings, started):
                    raise BrokerError(
                        f"Kafka at {settings.bootstrap_servers} does not store offsets of the "
                        f"group {topic!r} ({cause.str()}): {why}"
                    ) from None
                time.sleep(_LOOK_SECS)
            else:
                return
    finally:
        consumer.close()


def _commit_what_is_missing(consumer: Consumer, places: list[TopicPartition]) -> None:
    begin = []
    for place in _without_offset(consumer, places):
        first, end = consumer.get_watermark_offsets(place, timeout=_ANSWER_SECS)
        if first == end:
            begin.append(TopicPartition(place.topic, place.partition, end))
    if not begin:
        return
    try:
        raise_first_error(consumer.commit(offsets=begin, asynchronous=False) or ())
    except KafkaException as error:
        if error.args[0].code() not in _AT_WORK:
            raise


def _without_offset(consumer: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
    try:
        found = consumer.committed(places, timeout=_ANSWER_SECS)
        raise_first_error(found)
    except KafkaException as error:
        # The group belongs to another user, who commits its offsets.
        if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return []
        raise
    return [place for place in found if place.offset < 0]


def _beyond(group: str, place: TopicPartition, end: int, settings: Settings) -> LostOffsetError:
    return LostOffsetError(
        f"the group {group!r} continues at offset {place.offset} of "
        f"{place.topic}[{place.partition}], but the partition ends at {end}: the topic was "
        "recreated, or its brokers have lost records. Stop all processes of the component, then "
        f"set where it continues: {_reset(group, place, settings)} --to-earliest to execute all "
        "records that the topic has now, or with --to-latest to skip them"
    )


def _missing(group: str, place: TopicPartition, settings: Settings) -> LostOffsetError:
    return LostOffsetError(
        f"the group {group!r} has no offset of {place.topic}[{place.partition}], which has "
        "records: the offset has expired (offsets.retention.minutes of the brokers, while the "
        "topology was stopped), or was deleted. Starting at the first record could count messages "
        "twice. Stop all processes of the component, then set where it continues: "
        f"{_reset(group, place, settings)} --to-latest if all records were processed when the "
        "topology was stopped, or with --to-earliest if none were"
    )


def _reset(group: str, place: TopicPartition, settings: Settings) -> str:
    return (
        f"kafka-consumer-groups.sh --bootstrap-server {settings.bootstrap_servers} --group {group} "
        f"--topic {place.topic}:{place.partition} --reset-offsets --execute, with"
    )
