"""Trees of messages, and why messages are not done, read from the topics like `kstorm trace` and
`kstorm why`."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kstorm.cli.asking import Asking
from kstorm.cli.tracing import reading
from kstorm.inspect.facts import Message
from kstorm.inspect.outline import Outline
from kstorm.inspect.quiet import without_values
from kstorm.inspect.tree import Tree
from kstorm.inspect.verdict import Verdict
from kstorm.runtime.service.settings import Settings
from kstorm.runtime.tracing.log import Budget, TopicLog

MOST_BYTES: Final = 512_000_000
MOST_SECS: Final = 20.0


class MessageAnswer(msgspec.Struct, frozen=True):
    """Trees and verdict of a message."""

    trees: Sequence[Tree]
    """Trees of its attempts, oldest first."""
    verdict: Verdict | None
    """Reason why it is not done. None if not everything was read, so that it is not known."""


class OldestAnswer(msgspec.Struct, frozen=True):
    """Oldest unfinished messages of each partition that was read."""

    verdicts: Sequence[Verdict]
    all: bool
    """True if all partitions were read."""


def message_of(
    settings: Settings, topology: Outline, message: Message, *, values: bool
) -> MessageAnswer:
    """Read the trees of one message. `values`: include tuple values and error texts.

    Raises `KstormError` if the message does not exist or cannot be read.
    """
    spout = _reader_of(topology, message.topic)
    with (
        TopicLog(settings, Budget(MOST_BYTES, MOST_SECS)) as log,
        _asking(settings, topology, spout, log, values) as asking,
    ):
        asking.check(message)
        trees = asking.attempts(message)
        verdict = None if log.budget.exhausted else asking.verdict(message, trees)
    return MessageAnswer(trees if values else [without_values(tree) for tree in trees], verdict)


def oldest_of(settings: Settings, topology: Outline, *, values: bool) -> OldestAnswer:
    """Return the oldest unfinished message in each partition of each spout that reads Kafka.

    Raises `KstormError` if there is no such spout, or a topic cannot be read.
    """
    topology.check_reader(None)
    found: list[Verdict] = []
    with TopicLog(settings, Budget(MOST_BYTES, MOST_SECS)) as log:
        for spout in topology.readings:
            with _asking(settings, topology, spout, log, values) as asking:
                for verdict in asking.verdicts(asking.oldest()):
                    if log.budget.exhausted:  # the verdict is based on partial data
                        return OldestAnswer(found, False)
                    found.append(verdict)
    return OldestAnswer(found, True)


def _reader_of(topology: Outline, topic: str) -> str:
    """Return the first spout that reads the topic. One suffices, because a message has the trees of
    all of them.

    Raises `ConfigError` if no spout reads the topic.
    """
    found = [spout for spout, reads in topology.readings.items() if reads.reads(topic)]
    # raises, naming the topics that are read
    return found[0] if found else topology.reader_of(topic)


def _asking(
    settings: Settings, topology: Outline, spout: str, log: TopicLog, values: bool
) -> Asking:
    read = reading(topology, spout, settings, topology.readings[spout].config)
    return Asking(topology, spout, read, log, quotes=values)
