"""Copy messages of dead letters to a topic: `kstorm dlq replay --mode produce`.

This is for messages that no spout can replay. A copy is a new message with new coordinates. Every
reader of the topic receives it, and kstorm does not report the outcome of its tree. So a message is
not copied if its spout can replay it. A letter is discarded only after Kafka has stored the copy,
so each message is copied at least once.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from kstorm.core.dead_letters import DeadLetter
from kstorm.errors import BrokerError, ConfigError, KstormError
from kstorm.operations.events.audit_log import record_event as note_event
from kstorm.operations.formatting import counted
from kstorm.operations.letters.reading import read_whole
from kstorm.operations.letters.replaying import (
    MOST_REPLAYS,
    open_requests,
    why_incomplete,
    why_not_replayable,
)
from kstorm.operations.letters.selection import NumberedLetter
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.raw_writer import RawMessage, write_raw
from kstorm.runtime.kafka.single_partition_topic import write_topic
from kstorm.topology import Topology
from kstorm.topology.names import NamesOf

REPLAY_OF: Final = "kstorm-replay-of"
"""Header with the position of the original message.

If the message did not come from a topic, the position is that of its letter.
"""
REPLAYS: Final = "kstorm-replays"
"""Header with the number of the replay, starting at 1."""
_AT_ONCE: Final = 500


class ReplayMode(StrEnum):
    """Replay mode: request a replay from the spout, or produce a copy."""

    ORDER = "order"
    PRODUCE = "produce"


class CopySelection(NamedTuple):
    """Letters to copy, the reasons for omitting others with their counts, and partition counts."""

    letters: Sequence[NumberedLetter]
    others: Mapping[str, int]
    partitions: Mapping[str, int]
    """Partition counts of the existing topics."""


def select_copies(
    settings: Settings,
    topology: str,
    letters: Sequence[NumberedLetter],
    code: Topology | None,
    *,
    to: str | None,
    force: bool,
) -> CopySelection:
    """Select the letters that can be copied.

    `code` is the topology's code if it is available, as in its pods.
    Raises `BrokerError` if Kafka does not respond, `ConfigError` if the topic `to` does not exist.
    """
    partitions = Admin(settings).partition_counts()
    if to is not None and to not in partitions:
        raise ConfigError(f"--to {to}: Kafka at {settings.bootstrap_servers} has no such topic")
    under_way = open_requests(settings, topology) if letters else set()
    replays = {
        one.number: replays_of(one.letter) for one in read_whole(settings, topology, letters)
    }
    found, others = [], Counter[str]()
    for one in letters:
        why = _why_not(one, topology, to, partitions, under_way)
        if not why and not force:
            often = replays.get(one.number, 0) >= MOST_REPLAYS
            why = _OFTEN if often else _why_ordered(one, topology, code, partitions, under_way)
        if why:
            others[why] += 1
        else:
            found.append(one)
    return CopySelection(found, others, partitions)


def copy_recorded(
    settings: Settings,
    topology: str,
    copies: CopySelection,
    what: str,
    *,
    to: str | None,
    rate: float | None,
    note: str,
    report: Callable[[str], None],
) -> None:
    """Copy the letters and record the number as an event, even if interrupted.

    `report` receives the number of copies, even if an error follows. Raises `BrokerError`.
    """
    done, why = 0, "interrupted"
    try:
        for count in _copied(settings, topology, copies, to=to, rate=rate):
            done += count
        why = ""
    except KstormError as error:
        why = str(error)
        raise
    finally:
        kept = sum(one.key is None for one in copies.letters)
        of_them = f"; {counted(kept, 'letter')} without a key cannot be discarded" if kept else ""
        outcome = (
            f"{done:,} copied to {to or 'their topics'}, and their letters discarded"
            f"{of_them}{why and f'; then: {why}'}"
        )
        note_event(topology, "replay", what, said=note, outcome=outcome, settings=settings)
        report(outcome)


def _copied(
    settings: Settings,
    topology: str,
    copies: CopySelection,
    *,
    to: str | None,
    rate: float | None,
) -> Iterator[int]:
    """Copy in batches and discard the letters that Kafka has stored.

    Yields the number of copies per batch. `rate` limits the copies per second. Raises `BrokerError`
    if Kafka does not accept a copy.
    """
    letters, begun = read_whole(settings, topology, copies.letters), False
    size = max(1, min(_AT_ONCE, int(rate))) if rate else _AT_ONCE
    while some := list(islice(letters, size)):
        if rate and begun:
            time.sleep(size / rate)
        begun = True
        made = [_copy_of(one, topology, to, copies.partitions) for one in some]
        taken, problem = write_raw(settings, made)
        ended = [
            one.key for number, one in enumerate(some) if number in taken and one.key is not None
        ]
        if ended:
            write_topic(
                settings, NamesOf(topology).dead_letters_topic, [(key, None) for key in ended]
            )
        yield len(taken)
        if problem:
            raise BrokerError(
                f"Kafka at {settings.bootstrap_servers!r} did not accept a copy: {problem}"
            )


def replays_of(letter: DeadLetter) -> int:
    """Return how often the message was replayed, including replays by copies."""
    told = next((value for name, value in letter.headers if name == REPLAYS), None)
    return max(
        letter.replays, int(told) if told is not None and told.isascii() and told.isdigit() else 0
    )


def _copy_of(
    one: NumberedLetter, topology: str, to: str | None, partitions: Mapping[str, int]
) -> RawMessage:
    letter = one.letter
    topic = to or letter.topic
    place = (
        f"{letter.topic}/{letter.partition}/{letter.offset}"
        if letter.offset >= 0
        else f"{NamesOf(topology).dead_letters_topic}/0/{one.number}"
    )
    origin = next((value for name, value in letter.headers if name == REPLAY_OF and value), place)
    headers = [(name, value) for name, value in letter.headers if name not in (REPLAY_OF, REPLAYS)]
    stays = topic == letter.topic and 0 <= letter.partition < partitions[topic]
    return RawMessage(
        topic,
        letter.partition if stays else None,
        letter.key,
        letter.value,
        [*headers, (REPLAY_OF, origin), (REPLAYS, str(replays_of(letter) + 1))],
    )


def _why_not(
    one: NumberedLetter,
    topology: str,
    to: str | None,
    partitions: Mapping[str, int],
    under_way: set[bytes],
) -> str:
    letter = one.letter
    if letter.topic.startswith(f"{topology}."):
        return "it is a tuple, or a record of kstorm's own topics"
    if letter.topic and letter.offset < 0:
        return "it is a record of a sink, not a message"
    if why := why_incomplete(one):
        return why
    if one.key in under_way:
        return "its replay is in progress"
    if not letter.topic and to is None:
        return "it did not come from a topic: give --to TOPIC for its copy"
    if to is None and letter.topic not in partitions:
        return (
            f"this Kafka has no topic {letter.topic!r}: give another topic with --to, or the "
            "Kafka that has it with --bootstrap"
        )
    return ""


def _why_ordered(
    one: NumberedLetter,
    topology: str,
    code: Topology | None,
    partitions: Mapping[str, int],
    under_way: set[bytes],
) -> str:
    """Return why a replay request is preferable, or "" if it is not possible."""
    letter = one.letter
    gone = letter.topic in partitions and letter.partition >= partitions[letter.topic]
    if (
        gone
        or NamesOf(topology).orders_topic not in partitions
        or why_not_replayable(one, topology, under_way)
    ):
        return ""
    if code is None:
        return (
            "a KafkaSpout can emit it again at its own coordinates: leave out --mode produce; if "
            "its spout is not a KafkaSpout, give the code with --topology MODULE:ATTR, or --force"
        )
    return _ORDER if _handles_requests(code, letter.component) else ""


def _handles_requests(topology: Topology, component: str) -> bool:
    """Return True if the spout handles replay requests."""
    # Most commands about letters do not load the code of spouts.
    from kstorm.kafka import KafkaSpout, ProcessingGuarantee

    spec = topology.components.get(component)
    if spec is None or not isinstance(spec.component, KafkaSpout):
        return False
    return spec.component.spout_config.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE


_ORDER: Final = (
    "its spout can emit it again at its own coordinates: leave out --mode produce (--force "
    "copies it anyway)"
)
_OFTEN: Final = f"it was replayed {MOST_REPLAYS} times and failed again; --force copies it anyway"
