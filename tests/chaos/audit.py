"""Compares the output with the input, without knowledge of the topology or its services.

A message of the source topic is finished when all of its expected outputs are in the sink topics.
It is also finished when it is in the dead letters. With exactly-once processing, a single tuple of
it may be in the dead letters. All other outputs of the message are still required. The expected
outputs are computed here independently.

A second output of one kind is a duplicate. An output that belongs to no message is corrupted. The
last counts may exceed the truth, because replays are counted again, but must never be below it.
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
    LostMessage,
    OffsetSeen,
    PartlyFailed,
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
    parted: Mapping[RecordPlace, PartlyFailed] | None = None,
    last: Collection[str] = (),
    offsets: Iterable[OffsetSeen] = (),
    ends: Mapping[int, int] | None = None,
) -> ChaosFindings:
    """Compare the output with the input.

    `poison` are the places that dead letters must name, `parted` the messages that end there in
    part. `last` are the ids of the messages that were produced when all others had been finished:
    they produce the last counts. `offsets` are the offsets in ZooKeeper in the order of reading,
    and `ends` the partitions' ends. Raises `ValueError` if an id occurs twice in the source topic.
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
                    LostMessage(
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
    """The numbered source messages with the arrival times of their outputs, one slot per kind."""

    def __init__(self, source: Sequence[Record], never: Mapping[int, Collection[str]]) -> None:
        """`never` are the outputs that must not arrive, by message number."""
        self._never = never
        self.findings = ChaosFindings()
        self.ids: list[str] = []
        self.words: list[list[str]] = []
        self.copies: list[tuple[int, int]] = []
        """Message number and time of each output beyond the first."""
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
            # One slot for each word, and one for the join.
            self._first_slot.append(self._first_slot[-1] + len(words) + 1)
        self._came_at = array("q", [NEVER]) * self._first_slot[-1]

    def take_word(self, record: Record, last: Collection[str]) -> None:
        """Add a record of the counts topic."""
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
        """Add a record of the join's topic."""
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
        """Return when the last required output of a message first arrived."""
        return max((at for _, at in self._due(number)), default=0)

    def missing(self, number: int) -> str:
        """Return the outputs of a message that never arrived."""
        return ", ".join(name for name, at in self._due(number) if at == NEVER)

    def counted(self, number: int) -> list[str]:
        """Return the words of a message that occur again in the last ones. Bad words do not."""
        return [word for word in self.words[number] if not word.startswith("!")]

    def _due(self, number: int) -> list[tuple[str, int]]:
        """Return the required outputs of a message, and when each first arrived."""
        names = [*(f"word {position}" for position in range(len(self.words[number]))), "join"]
        times = self._came_at[self._first_slot[number] : self._first_slot[number + 1]]
        never = self._never.get(number, ())
        return [(name, at) for name, at in zip(names, times, strict=True) if name not in never]

    def number_of(self, id: str) -> int | None:
        return self._number_of.get(id)

    def _came(self, number: int, kind: int, at: int) -> None:
        slot = self._first_slot[number] + kind
        first = self._came_at[slot]
        if first != NEVER:
            self.copies.append((number, max(first, at)))
        self._came_at[slot] = min(first, at)


def _text(record: Record) -> str:
    """Return a message's text. A message that is not text gets its place as id."""
    try:
        return record.value.decode()
    except UnicodeDecodeError:
        return f"{record.place.topic}[{record.place.partition}]@{record.place.offset}"


_read_word = msgspec.json.Decoder(_Word).decode
_read_joined = msgspec.json.Decoder(_Joined).decode
