"""Trees of messages, and why messages are unfinished, read from the topics like `kstorm trace` and
`kstorm why`."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kstorm.errors import AbsentError
from kstorm.introspection.outline import Outline
from kstorm.operations.traces.diagnosis import Diagnosis
from kstorm.operations.traces.topic_log import ReadBudget, TopicLog
from kstorm.operations.traces.topology_traces import offsets_of
from kstorm.operations.traces.tracer import Tracer
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.redaction import redact_values
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.verdict import Verdict
from kstorm.runtime.base.settings import Settings

MOST_BYTES: Final = 512_000_000
MOST_SECS: Final = 20.0


class MessageAnswer(msgspec.Struct, frozen=True):
    """Trees and verdict of a message."""

    trees: Sequence[Tree]
    """Trees of its attempts, oldest first."""
    verdict: Verdict | None
    """Reason why the message is unfinished. None if it is unknown, because not all data was read."""


class OldestAnswer(msgspec.Struct, frozen=True):
    """Oldest unfinished messages of each partition that was read."""

    verdicts: Sequence[Verdict]
    all: bool
    """True if all partitions were read."""


def message_of(
    settings: Settings, topology: Outline, message: MessageId, *, values: bool
) -> MessageAnswer:
    """Read the trees of one message. `values`: include tuple values and error texts.

    Raises `KstormError` if the message does not exist or cannot be read.
    """
    spout = _reader_of(topology, message.topic)
    with (
        TopicLog(settings, ReadBudget(MOST_BYTES, MOST_SECS)) as log,
        _asking(settings, topology, spout, log, values) as asking,
    ):
        asking.check(message)
        trees = asking.attempts(message)
        verdict = None if log.budget.exhausted else asking.verdict(message, trees)
    return MessageAnswer(trees if values else [redact_values(tree) for tree in trees], verdict)


def message_of_root(settings: Settings, topology: Outline, root: int) -> MessageId:
    """Return the source message that a tree belongs to.

    Raises `AbsentError` if no tree of this root, or none of a message, begins in the ackers' topic.
    """
    with TopicLog(settings, ReadBudget(MOST_BYTES, MOST_SECS)) as log:
        start = Tracer(topology, log).find(root, since=0)
    if start is None:
        raise AbsentError(
            f"{topology.acker_topic} has no tree with the root {root:016x}; the topic keeps "
            "records for a day"
        )
    if start.origin is None:
        raise AbsentError(f"the tree {root:016x} does not begin with a message of Kafka")
    return MessageId(*start.origin[:3])


def oldest_of(settings: Settings, topology: Outline, *, values: bool) -> OldestAnswer:
    """Return the oldest unfinished message in each partition of each spout that reads Kafka.

    Raises `KstormError` if there is no such spout, or a topic cannot be read.
    """
    topology.check_reader(None)
    found: list[Verdict] = []
    with TopicLog(settings, ReadBudget(MOST_BYTES, MOST_SECS)) as log:
        for spout in topology.readings:
            with _asking(settings, topology, spout, log, values) as asking:
                for verdict in asking.verdicts(asking.oldest()):
                    if log.budget.exhausted:  # the verdict is based on partial data
                        return OldestAnswer(found, False)
                    found.append(verdict)
    return OldestAnswer(found, True)


def _reader_of(topology: Outline, topic: str) -> str:
    """Return the first spout that reads the topic. One suffices, because its message has the trees
    of all spouts.

    Raises `ConfigError` if no spout reads the topic.
    """
    found = [spout for spout, reads in topology.readings.items() if reads.reads(topic)]
    # if there is none, this raises an error that lists the topics
    return found[0] if found else topology.reader_of(topic)


def _asking(
    settings: Settings, topology: Outline, spout: str, log: TopicLog, values: bool
) -> Diagnosis:
    read = offsets_of(topology, spout, settings, topology.readings[spout].config)
    return Diagnosis(topology, spout, read, log, quotes=values)
