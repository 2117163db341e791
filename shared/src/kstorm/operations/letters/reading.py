"""Read and format dead letters for `kstorm dlq`."""

import time
from collections.abc import Iterator, Sequence
from typing import Final

from confluent_kafka import Message

from kstorm.core.dead_letters import DeadLetter
from kstorm.errors import AbsentError
from kstorm.operations.letters.selection import (
    CurrentLetters,
    LetterRecord,
    LetterSelection,
    NumberedLetter,
    current_letters,
    message_of,
)
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.single_partition_topic import read_topic
from kstorm.topology.names import NamesOf

MOST_NUMBERS: Final = 20
"""Limit on the letters listed in a message or an event."""


def record_of(message: Message) -> LetterRecord:
    stamped, stamp = message.timestamp()
    return LetterRecord(
        message.offset() or 0,
        _bytes(message.key()),
        _bytes(message.value()),
        stamp if stamped and stamp > 0 else 0,
    )


def read_letters(settings: Settings, topology: str, first: int = 0) -> CurrentLetters:
    """Return the current letters from a number on. Raises `BrokerError`.

    See `kstorm.operations.letters.selection.current_letters`.
    """
    return current_letters(
        map(record_of, read_topic(settings, NamesOf(topology).dead_letters_topic, first))
    )


def read_whole(
    settings: Settings, topology: str, letters: Sequence[NumberedLetter]
) -> Iterator[NumberedLetter]:
    """Yield complete letters one by one, because all of them together may be large. Raises
    `BrokerError`."""
    wanted = {one.number for one in letters}
    for message in (
        read_topic(settings, NamesOf(topology).dead_letters_topic, min(wanted, default=0))
        if wanted
        else ()
    ):
        if message.offset() in wanted:
            wanted.discard(message.offset() or 0)
            yield from current_letters([record_of(message)], whole=True).letters
        if not wanted:
            return


def read_one(settings: Settings, topology: str, number: int) -> NumberedLetter:
    """Return a complete letter. Raises `AbsentError` if it does not exist."""
    found = [
        one for one in read_letters(settings, topology, number).letters if one.number == number
    ]
    for one in read_whole(settings, topology, found):
        return one
    raise AbsentError(
        f"{topology!r} has no dead letter {number}: it was discarded, was replaced by a newer one "
        "of the same message, or never existed; `kstorm dlq list` lists the current ones"
    )


def select(found: CurrentLetters, selection: LetterSelection) -> list[NumberedLetter]:
    return [one for one in found.letters if selection.has(one)]


def place_of(letter: DeadLetter) -> str:
    """Return the coordinates of the letter's message."""
    if letter.offset < 0:
        return letter.topic or "–"
    row = f" row {letter.row}" if letter.row >= 0 else ""
    return f"{letter.topic}/{letter.partition}/{letter.offset}{row}"


def numbers_of(letters: Sequence[NumberedLetter], group: str | None = None) -> str:
    """Format the numbers of letters for an event, with the group if one was given."""
    shown = ", ".join(str(one.number) for one in letters[:MOST_NUMBERS])
    more = f" and {len(letters) - MOST_NUMBERS:,} more" if len(letters) > MOST_NUMBERS else ""
    return f"{shown}{more}{f' (group {group})' if group else ''}"


def error_text(letter: DeadLetter) -> str:
    error = letter.error
    return (
        f"{error.type}: {error.message}" if error is not None and error.type else message_of(letter)
    )


def now_ms() -> int:
    """Return the time in ms since 1970."""
    return int(time.time() * 1000)


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
