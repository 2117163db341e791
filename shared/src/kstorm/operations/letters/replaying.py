"""Write replay requests for dead letters, to be handled by `kstorm.kafka.replays`."""

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from msgspec.structs import replace

from kstorm.core.dead_letters import UNDECODABLE, is_cut
from kstorm.errors import ControlError
from kstorm.kafka.replay_requests import ReplayRequest, encode_request
from kstorm.kafka.replay_stages import stage_sizes
from kstorm.operations.formatting import counted
from kstorm.operations.letters.reading import now_ms, read_whole
from kstorm.operations.letters.selection import NumberedLetter, kind_of
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.single_partition_topic import read_topic, write_topic
from kstorm.topology.names import NamesOf

OF_A_TUPLE: Final = (
    "with exactly-once processing, bolts give tuples up, and no spout can emit these: produce a "
    "message with the right value to the source topic, then discard the letter with "
    "`kstorm dlq discard`"
)
MOST_REPLAYS: Final = 3
"""A message that has failed this many replays needs a fix rather than another attempt."""


def replayable(
    settings: Settings,
    topology: str,
    letters: Sequence[NumberedLetter],
    *,
    force: bool,
) -> tuple[list[NumberedLetter], Mapping[str, int]]:
    """Return the letters that can be replayed, and counts of the reasons for the others.

    Raises `BrokerError`.
    """
    under_way = open_requests(settings, topology) if letters else set()
    found, others = [], Counter[str]()
    for one in letters:
        if why := why_not_replayable(one, topology, under_way) or _why_not_again(one, force=force):
            others[why] += 1
        else:
            found.append(one)
    return found, others


def request_replays(
    settings: Settings,
    topology: str,
    letters: Sequence[NumberedLetter],
    *,
    rate: float | None,
    who: str,
    note: str,
    by_stages: bool,
) -> str:
    """Request replays of letters and return their number as text.

    `rate` limits the replays per second. With `by_stages`, the first requests are for a few letters
    of each spout. Raises `ControlError` if no spout of the topology handles requests. Raises
    `BrokerError` if Kafka has not stored all requests.
    """
    topic = NamesOf(topology).orders_topic
    if topic not in Admin(settings).partition_counts():
        raise ControlError(
            f"no spout of {topology!r} handles replay requests, because there is no topic "
            f"{topic!r}: the topology has no KafkaSpout, or has not run with this release; --mode "
            "produce copies messages"
        )
    begin, batch = now_ms(), secrets.token_hex(8) if by_stages else ""
    counts = Counter(one.letter.component for one in letters)

    def records() -> Iterator[tuple[bytes | None, bytes | None]]:
        seen, firsts = Counter[str](), dict[tuple[str, int], int]()
        for place, one in enumerate(read_whole(settings, topology, letters)):
            component = one.letter.component
            after = begin + int(place * 1000 / rate) if rate else 0
            ordered = replay_request(one, after=after, who=who, note=note)
            if batch:
                stages = stage_sizes(counts[component])
                stage = _stage_of(stages, seen[component])
                seen[component] += 1
                first = firsts.setdefault((component, stage), place)
                pace = int((place - first) * 1000 / rate) if rate else 0
                ordered = replace(ordered, batch=batch, stage=stage, stages=stages, pace=pace)
            yield one.key, encode_request(ordered)

    write_topic(settings, topic, records())
    return f"{counted(len(letters), 'replay')} requested"


def _stage_of(stages: Sequence[int], place: int) -> int:
    return next(stage for stage, end in enumerate(accumulate(stages)) if place < end)


def request_edited_replay(
    settings: Settings, topology: str, one: NumberedLetter, value: bytes, *, who: str, note: str
) -> str:
    """Request a replay with another value and return the result as text.

    Raises `BrokerError` if Kafka has not stored the request.
    """
    edited = replace(replay_request(one, who=who, note=note), value=value)
    write_topic(settings, NamesOf(topology).orders_topic, [(one.key, encode_request(edited))])
    return "1 replay requested"


def replay_request(
    one: NumberedLetter, *, after: int = 0, who: str = "", note: str = ""
) -> ReplayRequest:
    letter = one.letter
    return ReplayRequest(
        number=one.number,
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        value=letter.value,
        key=letter.key,
        headers=letter.headers,
        timestamp=letter.timestamp,
        attempts=letter.attempts,
        replays=letter.replays + 1,
        after=after,
        who=who,
        note=note,
    )


def why_not_replayable(one: NumberedLetter, topology: str, under_way: set[bytes]) -> str:
    """Return why no spout can replay the message. Empty if one can."""
    letter = one.letter
    if one.key is None:
        return "the letter has no key"
    if letter.roots and letter.topic.startswith(f"{topology}."):
        return OF_A_TUPLE
    if letter.offset < 0 or letter.topic.startswith(f"{topology}."):
        return "it is not a message of a source topic"
    return why_incomplete(one) or ("its replay is in progress" if one.key in under_way else "")


def why_not_editable(
    one: NumberedLetter, topology: str, *, exactly_once: bool, by_kafka: bool
) -> str:
    """Return why the message cannot be replayed with another value. Empty if it can.

    `by_kafka` is True if a KafkaSpout of the topology gave up on the message.
    """
    if exactly_once and (one.letter.topic.startswith(f"{topology}.") or not by_kafka):
        return OF_A_TUPLE
    return (
        ""
        if by_kafka
        else f"{one.letter.component!r}, which gave it up, is not a KafkaSpout of {topology!r}"
    )


def why_incomplete(one: NumberedLetter) -> str:
    """Return why the letter's message is incomplete. Empty if it is complete."""
    if kind_of(one.letter) == UNDECODABLE and not one.has_value:
        return "no part of the message could be read"
    if one.letter.roots and not one.has_value:
        return "the letter is of one of the message's tuples, and the others were processed"
    return "the letter has only the beginning of the message" if is_cut(one.letter) else ""


def _why_not_again(one: NumberedLetter, *, force: bool) -> str:
    if one.letter.replays < MOST_REPLAYS or force:
        return ""
    return f"it was replayed {MOST_REPLAYS} times and failed again; --force replays it anyway"


def open_requests(settings: Settings, topology: str) -> set[bytes]:
    """Return the keys of letters with an unfinished replay request.

    Empty if no spout of the topology handles requests.
    """
    found = set[bytes]()
    if NamesOf(topology).orders_topic not in Admin(settings).partition_counts():
        return found
    for record in read_topic(settings, NamesOf(topology).orders_topic):
        key = record.key()
        if isinstance(key, bytes):
            (found.discard if record.value() is None else found.add)(key)
    return found
