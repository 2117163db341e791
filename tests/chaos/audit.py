"""Compares what came out with what was sent in. It knows nothing of how the topology works, and nothing of its
services.

The rule: a message of the source topic is finished when every output that follows from it is in the sink topics, or
when it is in the dead letters. Exactly once, a tuple of it may be there, and all else of the message has to come. What
follows from it is worked out here again. An output beyond one of each kind is a
duplicate; an output that follows from no message is corrupted; the last counts may exceed the truth, as replays are
counted again, and never fall short of it.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from zlib import crc32

import msgspec

from tests.chaos.checks import check_letters, check_offsets
from tests.chaos.findings import (
    NEVER,
    ChaosFindings,
    Duplicate,
    Letter,
    Lost,
    OffsetSeen,
    Parted,
    Record,
    RecordPlace,
)


class _Word(msgspec.Struct):
    id: str
    position: int
    word: str
    count: int


class _Joined(msgspec.Struct):
    id: str
    length: int
    checksum: int


def audit(
    source: Sequence[Record],
    words: Iterable[Record],
    joined: Iterable[Record],
    letters: Iterable[Letter],
    *,
    poison: Collection[RecordPlace] = (),
    parted: Mapping[RecordPlace, Parted] | None = None,
    last: Collection[str] = (),
    offsets: Iterable[OffsetSeen] = (),
    ends: Mapping[int, int] | None = None,
) -> ChaosFindings:
    """Compare.

    `poison` are the places that dead letters must name, `parted` the messages that end there in part. `last` are
    the ids of the messages that were produced when all others had been finished: with them came the last counts.
    `offsets` is what ZooKeeper had, in the order of looking; `ends` the partitions' ends. Raises `ValueError` if an id
    is twice in the source topic.
    """
    parted = parted or {}
    letters = list(letters)
    letter_at: dict[RecordPlace, int] = {}
    for letter in letters:
        letter_at[letter.place] = min(letter.timestamp, letter_at.get(letter.place, NEVER))
    messages = _Messages(
        source,
        {
            number: parted[one.place].never
            for number, one in enumerate(source)
            if one.place in parted
        },
    )
    for record in words:
        messages.take_word(record, last)
    for record in joined:
        messages.take_joined(record)
    found = messages.findings
    found.messages = [record.timestamp for record in source]
    found.letters = sum(place in letter_at for place in poison)
    found.without_letter = [place for place in poison if place not in letter_at]
    finished: dict[RecordPlace, int] = {}
    truth: Counter[str] = Counter()
    for number, record in enumerate(source):
        at = messages.finished_at(number)
        if record.place in letter_at:
            at = letter_at[record.place]
            if record.place not in poison:
                found.given_up.append(record.place)
        elif record.place not in poison:
            truth.update(messages.counted(number))
            if at != NEVER:
                found.spans.append((record.timestamp, at))
            else:
                found.lost.append(
                    Lost(
                        record.place,
                        messages.ids[number],
                        record.timestamp,
                        messages.missing(number),
                    )
                )
        finished[record.place] = at
    found.duplicates = [
        Duplicate(messages.ids[number], at, messages.finished_at(number))
        for number, at in messages.copies
        if source[number].place not in letter_at
    ]
    if last:
        highest = messages.last_counts
        found.short = {
            word: (highest[word], count) for word, count in truth.items() if highest[word] < count
        }
        found.over = sum(max(0, highest[word] - count) for word, count in truth.items())
    check_letters(messages, source, letters, poison, parted)
    check_offsets(found, finished, offsets, ends)
    return found


class _Messages:
    """The source's messages, numbered, with the times at which their outputs came: one slot a kind of output."""

    def __init__(self, source: Sequence[Record], never: Mapping[int, Collection[str]]) -> None:
        """`never`: by number, the outputs that must not come."""
        self._never = never
        self.findings = ChaosFindings()
        self.ids: list[str] = []
        self.words: list[list[str]] = []
        self.copies: list[tuple[int, int]] = []
        """Number of the message, and time, of each output beyond the first."""
        self.last_counts: Counter[str] = Counter()
        self._checksums = array("L")
        self._first_slot = array("q", [0])
        self._number_of: dict[str, int] = {}
        for number, record in enumerate(source):
            id, *words = _text(record).split()
            if self._number_of.setdefault(id, number) != number:
                raise ValueError(
                    f"the id {id!r} is twice in the source topic: at {record.place} and before"
                )
            self.ids.append(id)
            self.words.append(words)
            self._checksums.append(crc32(record.value))
            self._first_slot.append(
                self._first_slot[-1] + len(words) + 1
            )  # the words, and the join
        self._came_at = array("q", [NEVER]) * self._first_slot[-1]

    def take_word(self, record: Record, last: Collection[str]) -> None:
        """A record of the topic of counts."""
        self.findings.outputs += 1
        try:
            word = _read_word(record.value)
            number = self._number_of[word.id]
            fits = (
                word.position >= 0
                and self.words[number][word.position] == word.word
                and word.count > 0
            )
        except (msgspec.MsgspecError, LookupError):
            fits = False
        if not fits:
            self.findings.corrupted.append(record)
            return
        if f"word {word.position}" in self._never.get(number, ()):
            self.findings.corrupted.append(record)
            return
        self._came(number, word.position, record.timestamp)
        if word.id in last:
            self.last_counts[word.word] = max(word.count, self.last_counts[word.word])

    def take_joined(self, record: Record) -> None:
        """A record of the join's topic."""
        self.findings.outputs += 1
        try:
            both = _read_joined(record.value)
            number = self._number_of[both.id]
            fits = (
                both.length == len(self.words[number]) and both.checksum == self._checksums[number]
            )
        except (msgspec.MsgspecError, LookupError):
            fits = False
        if not fits:
            self.findings.corrupted.append(record)
            return
        if "join" in self._never.get(number, ()):
            self.findings.corrupted.append(record)
            return
        self._came(number, len(self.words[number]), record.timestamp)

    def finished_at(self, number: int) -> int:
        """When the last of the outputs that a message must have was there for the first time."""
        return max((at for _, at in self._due(number)), default=0)

    def missing(self, number: int) -> str:
        """The outputs of a message that never came."""
        return ", ".join(name for name, at in self._due(number) if at == NEVER)

    def counted(self, number: int) -> list[str]:
        """The words of a message that come again with the last ones; a bad word does not."""
        return [word for word in self.words[number] if not word.startswith("!")]

    def _due(self, number: int) -> list[tuple[str, int]]:
        """The outputs that a message must have, and when each came first."""
        names = [*(f"word {position}" for position in range(len(self.words[number]))), "join"]
        times = self._came_at[self._first_slot[number] : self._first_slot[number + 1]]
        never = self._never.get(number, ())
        return [(name, at) for name, at in zip(names, times, strict=True) if name not in never]

    def number_of(self, id: str) -> int | None:
        """The number of the message with an id; None if there is none."""
        return self._number_of.get(id)

    def _came(self, number: int, kind: int, at: int) -> None:
        slot = self._first_slot[number] + kind
        first = self._came_at[slot]
        if first != NEVER:
            self.copies.append((number, max(first, at)))
        self._came_at[slot] = min(first, at)


def _text(record: Record) -> str:
    """What a message says; what is no text gets its place for an id."""
    try:
        return record.value.decode()
    except UnicodeDecodeError:
        return f"{record.place.topic}[{record.place.partition}]@{record.place.offset}"


_read_word = msgspec.json.Decoder(_Word).decode
_read_joined = msgspec.json.Decoder(_Joined).decode
