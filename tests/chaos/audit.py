"""Compares what came out with what was sent in. It knows nothing of how the topology works, and nothing of its
services.

The rule: a message of the source topic is finished when every output that follows from it is in the sink topics, or
when it is in the dead letters. Exactly once, a tuple of it may be there, and all else of the message has to come. What
follows from it is worked out here again. An output beyond one of each kind is a
duplicate; an output that follows from no message is corrupted; the last counts may exceed the truth, as replays are
counted again, and never fall short of it.
"""

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

NEVER: Final = 2**62
"""The time at which what is lost was written, in ms."""


class RecordPlace(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int


class Record(NamedTuple):
    """A record as a plain consumer reads it."""

    place: RecordPlace
    value: bytes
    timestamp: int
    """When the broker got it, in ms since 1970; of a dead letter, when it was sent."""


class Letter(NamedTuple):
    """A dead letter."""

    place: RecordPlace
    """Of the record that it is about; without a topic if it names none."""
    timestamp: int
    """When it was sent, in ms since 1970."""
    component: str = ""
    id: str = ""
    """The message that its tuple is of, if it tells."""


class Parted(NamedTuple):
    """What has to become of a message of which some tuples end in the dead letters, and the others do not."""

    never: frozenset[str]
    """Its outputs that must not come: `word 1`, `join`."""
    letters: tuple[tuple[str, bool], ...]
    """The dead letters of its tuples: who gives each up, and whether it tells the message's id."""


class OffsetSeen(NamedTuple):
    """What ZooKeeper had of one partition of the source topic."""

    partition: int
    offset: int
    at: int
    """When it had been read, in ms since 1970."""
    position: int | None = None
    """Exactly once: the position that the spout's group had in Kafka afterwards."""


class Lost(NamedTuple):
    """A message of which something is missing."""

    place: RecordPlace
    id: str
    timestamp: int
    missing: str


class Duplicate(NamedTuple):
    """An output beyond the one that there should be."""

    id: str
    at: int
    """When it was written, in ms since 1970."""
    finished: int
    """When the last of its message's outputs was there for the first time; `NEVER` if one is missing."""


@dataclass(slots=True)
class ChaosFindings:
    messages: Sequence[int] = ()
    """When each message came into the source topic, in ms since 1970."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Of each message that was processed to its end: when it came, and when the last of its outputs was there, in ms since 1970."""
    outputs: int = 0
    """Records in the sink topics."""
    lost: list[Lost] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)
    corrupted: list[Record] = field(default_factory=list)
    letters: int = 0
    """Messages and records of internal topics in the dead letters, as they should be."""
    given_up: list[RecordPlace] = field(default_factory=list)
    """Messages in the dead letters that could have been processed."""
    without_letter: list[RecordPlace] = field(default_factory=list)
    """What could not be processed and is not in the dead letters."""
    wrong_letters: list[str] = field(default_factory=list)
    """Dead letters of single tuples that are missing, or too many."""
    short: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Words whose last count is below the truth: both."""
    over: int = 0
    """By how much the last counts exceed the truth, in all."""
    ahead: list[OffsetSeen] = field(default_factory=list)
    """Stored offsets that were too high: above an unfinished message; exactly once, above the spout's position in Kafka, which they
    follow."""
    samples: int = 0
    """Stored offsets that were looked at."""
    unfinished: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partitions whose last stored offset is not the partition's end: both."""

    def faults(self) -> list[str]:
        """What is wrong, a sentence each; empty if all is well."""
        found = []
        for what, some in (
            ("messages are lost", self.lost),
            ("outputs are corrupted", self.corrupted),
            ("messages were given up that could be processed", self.given_up),
            ("records that cannot be processed are not in the dead letters", self.without_letter),
            ("dead letters of tuples are not as they should be", self.wrong_letters),
            ("words are counted short (last count, truth)", list(self.short.items())),
            ("stored offsets were too high", self.ahead),
            ("partitions do not end with everything finished (stored, end)", list(self.unfinished.items())),
        ):
            if some:
                found.append(f"{len(some)} {what}: {', '.join(map(str, some[:3]))}")
        return found


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
        source, {number: parted[one.place].never for number, one in enumerate(source) if one.place in parted}
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
                found.lost.append(Lost(record.place, messages.ids[number], record.timestamp, messages.missing(number)))
        finished[record.place] = at
    found.duplicates = [
        Duplicate(messages.ids[number], at, messages.finished_at(number))
        for number, at in messages.copies
        if source[number].place not in letter_at
    ]
    if last:
        highest = messages.last_counts
        found.short = {word: (highest[word], count) for word, count in truth.items() if highest[word] < count}
        found.over = sum(max(0, highest[word] - count) for word, count in truth.items())
    _check_letters(messages, source, letters, poison, parted)
    _check_offsets(found, finished, offsets, ends)
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
                raise ValueError(f"the id {id!r} is twice in the source topic: at {record.place} and before")
            self.ids.append(id)
            self.words.append(words)
            self._checksums.append(crc32(record.value))
            self._first_slot.append(self._first_slot[-1] + len(words) + 1)  # the words, and the join
        self._came_at = array("q", [NEVER]) * self._first_slot[-1]

    def take_word(self, record: Record, last: Collection[str]) -> None:
        """A record of the topic of counts."""
        self.findings.outputs += 1
        try:
            word = _read_word(record.value)
            number = self._number_of[word.id]
            fits = word.position >= 0 and self.words[number][word.position] == word.word and word.count > 0
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
            fits = both.length == len(self.words[number]) and both.checksum == self._checksums[number]
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


def _check_letters(
    messages: _Messages,
    source: Sequence[Record],
    letters: Iterable[Letter],
    poison: Collection[RecordPlace],
    parted: Mapping[RecordPlace, Parted],
) -> None:
    """Of the messages that end in part in the dead letters each tuple is there that must be, once; of others none is."""
    found = messages.findings
    expected = {
        number: [(who, messages.ids[number] if tells else "") for who, tells in parted[record.place].letters]
        for number, record in enumerate(source)
        if record.place in parted
    }
    due = Counter(chain.from_iterable(expected.values()))
    places = {record.place for record in source}
    there: Counter[tuple[str, str]] = Counter()
    for letter in letters:
        number = messages.number_of(letter.id)
        if letter.place in poison or letter.place in places:
            continue
        if number is None or number in expected:
            there[letter.component, letter.id] += 1
        else:
            found.given_up.append(source[number].place)
    found.letters += sum(all(there[one] for one in some) for some in expected.values())
    found.wrong_letters = [
        f"{there[one]} in place of {due[one]} of {one[0]!r}" + (f" for {one[1]!r}" if one[1] else "")
        for one in sorted(due | there)
        if there[one] != due[one]
    ]


def _check_offsets(
    found: ChaosFindings,
    finished: Mapping[RecordPlace, int],
    offsets: Iterable[OffsetSeen],
    ends: Mapping[int, int] | None,
) -> None:
    """At no time was a stored offset above a message that was not finished by then; at last it is the end.

    Exactly once the spout's position in Kafka counts, which is in the transaction with what was emitted: who takes over begins
    there, and does not wait for what is in flight. ZooKeeper's offset is never ahead of it."""
    by_partition: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, at in finished.items():
        by_partition[place.partition].append((place.offset, at))
    all_below: dict[int, list[tuple[int, int]]] = {}  # by partition: offset, and when all up to it were finished
    for partition, places in by_partition.items():
        latest, steps = 0, []
        for offset, at in sorted(places):
            latest = max(latest, at)
            steps.append((offset, latest))
        all_below[partition] = steps
    stored: dict[int, int] = {}
    for seen in offsets:
        found.samples += 1
        stored[seen.partition] = seen.offset
        if seen.position is not None:
            if seen.offset > max(
                0, seen.position
            ):  # below 0 if there is none yet: where it begins is stored before anything
                found.ahead.append(seen)
            continue
        steps = all_below.get(seen.partition, [])
        below = bisect_left(steps, seen.offset, key=itemgetter(0))
        if below and steps[below - 1][1] > seen.at:
            found.ahead.append(seen)
    found.unfinished = {
        partition: (stored.get(partition, 0), end)
        for partition, end in (ends or {}).items()
        if stored.get(partition, 0) != end
    }


_read_word = msgspec.json.Decoder(_Word).decode
_read_joined = msgspec.json.Decoder(_Joined).decode
