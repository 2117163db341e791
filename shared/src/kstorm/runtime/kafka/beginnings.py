"""From where a component's tasks go on in their input: what its consumer group has committed, and whether that can be right.

The rule: **a task begins where its group has committed.** An offset beyond the end of the log belongs to another log, with every
guarantee. With exactly once an offset that is missing is an error too: offsets of groups expire, and to begin at the first record
again would count everything in it twice. So what is new has its first offset committed before anything is written into it
(`commit_beginnings`), and later a missing offset is one that was lost.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kstorm.errors import BrokerError, LostOffsetError
from kstorm.runtime.kafka.errors import raise_first_error
from kstorm.runtime.kafka.internal_topics import OFFSETS, why_give_up
from kstorm.runtime.service.log import CLIENT_LOG
from kstorm.runtime.service.settings import Settings
from kstorm.topology import Topology

_ANSWER_SECS: Final = 20.0
_LOOK_SECS: Final = 0.2
_END: Final = -1  # in place of a time
_AT_WORK: Final = (  # what a group says that has members: they have committed what they needed
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.NON_EMPTY_GROUP,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
)
_REFUSED: Final = (  # all else passes: topics that were just made have no leader yet, new brokers no coordinators
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
    """By partition, the offset at which a group goes on; 0 where it has committed none, unless they `must_be_there`.

    Raises `BrokerError` if Kafka does not say, `LostOffsetError` naming an offset that is missing or beyond the end of the log.
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
            f"the offsets of the group {group!r} cannot be read from Kafka at {settings.bootstrap_servers}: {error.args[0].str()}"
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
    """The ends of logs; a partition that has no leader at the moment is waited for."""
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


def commit_beginnings(topology: Topology, settings: Settings) -> None:
    """Of an exactly-once topology: commits for every bolt where to begin, in those partitions of its topic that hold no record
    and of which its group has no offset. Does nothing to others, and nothing to a group that is at work. Safe to call from many
    processes, and each calls it before it writes anything.

    So a partition in which there is something has an offset, unless that was lost. Raises `BrokerError`.
    """
    if not topology.config.exactly_once or not topology.bolts:
        return
    tasks = {topology.bolt_topic(bolt.id): bolt.num_tasks for bolt in topology.bolts}
    with ThreadPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(_commit_beginning, *one, settings) for one in tasks.items()]:
            done.result()


def _commit_beginning(topic: str, tasks: int, settings: Settings) -> None:
    """Of one bolt, whose group is named like its topic. By a consumer and not by an admin client: what an admin client has been
    asked and not answered yet when it goes can end the process, or keep it from ending (librdkafka 2.16.0)."""
    consumer = Consumer(
        {
            **settings.client_config,
            "group.id": topic,
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",  # what is in an open transaction counts as a record
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
                        f"Kafka would not let the bolt of the topic {topic!r} begin: {cause.str()}; it takes the right READ on the "
                        "group and the topic of that name"
                    ) from None
                if why := why_give_up(OFFSETS, settings, started):
                    raise BrokerError(
                        f"Kafka at {settings.bootstrap_servers} keeps no offsets of the group {topic!r} ({cause.str()}): {why}"
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
        if (
            error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        ):  # another user's, who sees to it himself
            return []
        raise
    return [place for place in found if place.offset < 0]


def _beyond(group: str, place: TopicPartition, end: int, settings: Settings) -> LostOffsetError:
    return LostOffsetError(
        f"the group {group!r} goes on at offset {place.offset} of {place.topic}[{place.partition}], but that ends at {end}: "
        "the topic was made anew, or its brokers have lost records. Stop all processes of the component, then say where it goes "
        "on: "
        f"{_reset(group, place, settings)} --to-earliest executes all that the topic has now, --to-latest none of it"
    )


def _missing(group: str, place: TopicPartition, settings: Settings) -> LostOffsetError:
    return LostOffsetError(
        f"the group {group!r} has no offset of {place.topic}[{place.partition}], in which there are records: it has expired "
        "(offsets.retention.minutes of the brokers, while the topology was stopped), or was deleted. To begin at the first record "
        "would count again what has been processed exactly once. Stop all processes of the component, then say where it goes on: "
        f"{_reset(group, place, settings)} --to-latest if all was processed when the topology was stopped, --to-earliest if "
        "nothing was"
    )


def _reset(group: str, place: TopicPartition, settings: Settings) -> str:
    return (
        f"kafka-consumer-groups.sh --bootstrap-server {settings.bootstrap_servers} --group {group} "
        f"--topic {place.topic}:{place.partition} --reset-offsets --execute, with"
    )
