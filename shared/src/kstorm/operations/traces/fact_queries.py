"""Query Kafka and ZooKeeper for the facts that `kstorm.operations.trees.verdict` needs in addition to the
trees."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from confluent_kafka import TopicPartition

from kstorm.core.dead_letters import DeadLetter, decode_letter
from kstorm.errors import FrameError
from kstorm.introspection.outline import Outline, SpoutSource
from kstorm.kafka.finished_ranges import FinishedRange, decode_range
from kstorm.kafka.ports import Partition
from kstorm.operations.letters.selection import kind_of
from kstorm.operations.traces.topic_log import PartitionId, TopicLog
from kstorm.operations.trees.facts import LetterFact, MessageFacts, MessageId
from kstorm.operations.trees.joined import TupleLetter, of_roots, tuple_letter
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.offset_reader import OffsetReader
from kstorm.runtime.zookeeper.nodes import OffsetNodes
from kstorm.topology.topology import ACKER_COMPONENT

_MOST_READ: Final = 5_000
"""Number of the newest records that are read of the dead letters, and of the finished ranges."""


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """Facts that are the same for all messages."""

    committed: Mapping[PartitionId, int]
    ends: Mapping[PartitionId, int]
    owners: Mapping[PartitionId, str]
    finished: Sequence[FinishedRange]
    letters: Sequence[tuple[MessageId, LetterFact]]
    tuple_letters: Sequence[TupleLetter]


def read_topology_facts(topology: Outline, settings: Settings, log: TopicLog) -> TopologyFacts:
    """Return the committed offsets and the members of the groups of bolts and ackers. Raises
    `BrokerError` if Kafka does not respond."""
    topics = {
        topology.group(bolt.id): (topology.bolt_topic(bolt.id), bolt.num_tasks)
        for bolt in topology.bolts
    }
    topics[topology.group(ACKER_COMPONENT)] = (topology.acker_topic, topology.acker_tasks)
    asked = {
        group: [TopicPartition(topic, partition) for partition in range(count)]
        for group, (topic, count) in topics.items()
    }
    committed = {
        (place.topic, place.partition): place.offset
        for places in OffsetReader(settings).stored(asked).values()
        for place in places
    }
    owners: dict[PartitionId, str] = {}
    for group, members in Admin(settings).group_members(list(topics)).items():
        for member in members:
            instance = (member.group_instance_id or member.client_id).removeprefix(f"{group}-")
            owners |= {
                (place.topic, place.partition): instance
                for place in member.assignment.topic_partitions
            }
    places = [(topic, partition) for topic, count in topics.values() for partition in range(count)]
    ends = {place: log.bounds(place).end for place in places}
    letters = list(_letters(topology, log))
    return TopologyFacts(
        committed,
        ends,
        owners,
        list(_finished(topology, log)),
        [
            (
                MessageId(letter.topic, letter.partition, letter.offset),
                LetterFact(number, letter.reason, kind_of(letter)),
            )
            for number, letter in letters
        ],
        _of_tuples(letters),
    )


def tuple_letters(topology: Outline, log: TopicLog) -> Sequence[TupleLetter]:
    """Return the dead letters of tuples, in order."""
    return _of_tuples(_letters(topology, log))


def _of_tuples(letters: Iterable[tuple[int, DeadLetter]]) -> Sequence[TupleLetter]:
    found = (tuple_letter(number, letter) for number, letter in letters)
    return [letter for letter in found if letter is not None]


def facts_of(
    message: MessageId,
    topology: Outline,
    spout: str,
    around: TopologyFacts,
    nodes: OffsetNodes,
    *,
    deactivated: bool = False,
    position: int | None = None,
    emitted_to: int | None = None,
    roots: Collection[int] = (),
) -> MessageFacts:
    """Return all known facts about a message of a spout. `roots` are those of its trees."""
    node = nodes.read(Partition(message.topic, message.partition))
    component = topology.component(spout)
    return MessageFacts(
        now=int(time.time() * 1000),
        timeout_ms=component.timeout_ms,
        tasks=_tasks(topology),
        exactly_once=topology.exactly_once,
        retries=component.reading.retries if component.reading else None,
        stored=None if node.stored is None else node.stored.offset,
        position=position,
        emitted_to=emitted_to,
        holder=node.holder,
        deactivated=deactivated,
        committed=around.committed,
        ends=around.ends,
        owners=around.owners,
        finished=[
            found
            for found in around.finished
            if component.reading and _covers(found, message, component.reading)
        ],
        letters=[letter for about, letter in around.letters if about == message],
        tuple_letters=of_roots(around.tuple_letters, roots),
    )


def _tasks(topology: Outline) -> dict[int, str]:
    return {
        task: topology.name_of(task)
        for each in topology.components
        for task in topology.task_ids(each.id)
    }


def _finished(topology: Outline, log: TopicLog) -> Iterator[FinishedRange]:
    for value, _ in _newest(topology.finished_topic, log):
        with suppress(FrameError):
            yield decode_range(value)


def _covers(found: FinishedRange, message: MessageId, reading: SpoutSource) -> bool:
    mine = (found.topic, found.partition, found.reading) == (
        *message[:2],
        reading.path_of(message.topic),
    )
    return mine and found.start <= message.offset < found.end


def _letters(topology: Outline, log: TopicLog) -> Iterator[tuple[int, DeadLetter]]:
    for value, number in _newest(topology.dead_letters_topic, log):
        with suppress(FrameError):
            yield number, decode_letter(value)


def _newest(topic: str, log: TopicLog) -> Iterator[tuple[bytes, int]]:
    """Yield the last records of a topic with one partition, oldest first, each with its offset."""
    log.budget.doing = f"reading {topic}"
    start, end = log.bounds((topic, 0))
    for record in log.read({(topic, 0): (max(start, end - _MOST_READ), end)}):
        if record.value is not None:
            yield record.value, record.offset
