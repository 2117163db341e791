"""Compares the output of streams, windows and joins with the input.

It recomputes the output from the source topic, with other code than the topology's:

- The last count of each word is the truth. No word has a count twice, or a lower one after a higher
  one.
- Each window occurs once, with exactly the messages of its time, by the definition of a window. The
  same holds for the sums of each.
- Each pair of a group occurs once: among all messages, and among those within one window.

A message that arrived too late for its windows is in the stream of late tuples, once, and in none
of the windows.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, product
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from tests.chaos.checks import check_letters, check_offsets
from tests.chaos.events import Event
from tests.chaos.evidence import Evidence
from tests.chaos.findings import NEVER, ChaosFindings, Duplicate, LostMessage, Record, RecordPlace
from tests.chaos.streams import (
    COUNTS,
    JOIN,
    JOIN_MS,
    LAG_MS,
    LATE,
    LENGTH_MS,
    SLIDE_MS,
    SPAN_SLIDE_MS,
    TOLD,
    TRIDENT,
    WINDOW,
)

NOWHERE: Final = "everything"
"""In `Parted.never`: no branch has any output of the message."""
_SIDES: Final = ("left", "right")


class SourceMessage(NamedTuple):
    """A message that must be processed."""

    place: RecordPlace
    came: int
    """When the broker received it, in ms since 1970."""
    event: Event


class _Counted(msgspec.Struct):
    word: str
    count: int


class _Window(msgspec.Struct):
    task: int
    start: int
    end: int
    ids: list[str]
    new: list[str]


class _Span(msgspec.Struct):
    side: str
    span: tuple[int, int, int, int]


class _Pair(msgspec.Struct):
    group: str
    left: str
    right: str


class _Joined(msgspec.Struct):
    group: str = msgspec.field(name="left:group")
    left: str = msgspec.field(name="left:id")
    right: str = msgspec.field(name="right:id")


class _Values(msgspec.Struct):
    id: str


class _LateTuple(msgspec.Struct):
    values: _Values


class _Late(msgspec.Struct):
    late_tuple: _LateTuple


class _Told(msgspec.Struct):
    of: str
    stream: str


def audit_streams(evidence: Evidence, branches: Collection[str]) -> ChaosFindings:
    """Audit the branches. Raises `ValueError` if an id occurs twice in the source topic."""
    streams = _Streams(evidence)
    if TRIDENT in branches:
        streams.check_counts(evidence.records(COUNTS))
    if WINDOW in branches or JOIN in branches:
        told = streams.by_origin(evidence.records(TOLD))
        if WINDOW in branches:
            late = streams.late(told["windows", LATE])
            streams.check_windows(told["windows", "default"], late)
            streams.check_spans(told["spans", "default"], streams.late(told["spans", LATE]))
        if JOIN in branches:
            streams.check_pairs("paired", told["paired", "default"], _read_pair, {}, None)
            late = streams.late(told["joined", LATE])
            streams.check_pairs("joined", told["joined", "default"], _read_joined, late, JOIN_MS)
    return streams.finish(evidence)


class _Streams:
    """The source messages and the findings."""

    def __init__(self, evidence: Evidence) -> None:
        self.findings = found = ChaosFindings()
        self.ids: list[str] = []
        self._number_of: dict[str, int] = {}
        self.messages: dict[str, SourceMessage] = {}
        at_last: list[int] = []
        for number, record in enumerate(evidence.source):
            event = _event(record)
            self.ids.append(event.id)
            if self._number_of.setdefault(event.id, number) != number:
                raise ValueError(
                    f"the id {event.id!r} is twice in the source topic: at {record.place} and before"
                )
            parted = evidence.parted.get(record.place)
            if record.place in evidence.poison or (parted is not None and NOWHERE in parted.never):
                continue
            if event.id in evidence.last:
                at_last.append(event.at)
            self.messages[event.id] = SourceMessage(record.place, record.timestamp, event)
        self._until = min(at_last) - LAG_MS if at_last else -NEVER
        found.messages = [record.timestamp for record in evidence.source]

    def number_of(self, id: str) -> int | None:
        """Return the number of a message in the source."""
        return self._number_of.get(id)

    def by_origin(self, records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
        """Group the records by component and stream."""
        told: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in records:
            self.findings.outputs += 1
            try:
                origin = _read_told(record.value)
            except msgspec.MsgspecError:
                self.findings.corrupted.append(record)
                continue
            told[origin.of, origin.stream].append(record)
        return told

    # Counts.

    def check_counts(self, records: Iterable[Record]) -> None:
        """Check that counts increase and that the last count of each word is the truth."""
        found = self.findings
        truth = Counter(
            word
            for message in self.messages.values()
            for word in message.event.text.split()
            if word[0] != "!"
        )
        highest: Counter[str] = Counter()
        for record in records:
            found.outputs += 1
            try:
                counted = _read_count(record.value)
            except msgspec.MsgspecError:
                found.corrupted.append(record)
                continue
            if counted.word not in truth or counted.count < 1:
                found.corrupted.append(record)
            elif counted.count <= highest[counted.word]:
                found.duplicates.append(_copy(f"count {counted.count} of {counted.word}", record))
            else:
                highest[counted.word] = counted.count
        found.short = {
            word: (highest[word], count) for word, count in truth.items() if highest[word] < count
        }
        found.over = sum(max(0, highest[word] - count) for word, count in truth.items())

    # Windows.

    def late(self, records: Iterable[Record]) -> Counter[str]:
        """Count how often each message was reported as late."""
        late: Counter[str] = Counter()
        for record in records:
            try:
                id = _read_late(record.value).late_tuple.values.id
                message = self.messages[id]
            except (msgspec.MsgspecError, LookupError):
                self.findings.corrupted.append(record)
                continue
            late[id] += 1
            if late[id] > 1:
                self.findings.duplicates.append(_copy(f"{id} is late", record))
            if message.event.at > self._until:
                self.findings.corrupted.append(record)
        self.findings.late += len(late)
        return late

    def check_windows(self, records: Iterable[Record], late: Mapping[str, int]) -> None:
        """Check that each window occurs once, and each message in all its windows."""
        found = self.findings
        shown: set[tuple[int, int]] = set()
        task_of: dict[str, int] = {}
        within: Counter[tuple[str, int]] = Counter()
        for record in records:
            try:
                window = _read_window(record.value)
                inside = [self.messages[id].event for id in window.ids]
            except (msgspec.MsgspecError, LookupError):
                found.corrupted.append(record)
                continue
            groups_are_its = all(
                task_of.setdefault(event.group, window.task) == window.task for event in inside
            )
            if not groups_are_its or not self._is_right(window, inside):
                found.corrupted.append(record)
            elif (window.task, window.end) in shown:
                found.duplicates.append(
                    _copy(f"the window of task {window.task} until {window.end}", record)
                )
            else:
                shown.add((window.task, window.end))
                within.update((id, window.end) for id in window.ids)
                copies = [
                    id for id, count in Counter(window.ids).items() if count > 1 or id in late
                ]
                found.duplicates += [
                    _copy(f"{id} in the window until {window.end}", record) for id in copies
                ]
        for id, message in self.messages.items():
            missing = [
                end for end in _ends(message.event.at) if end <= self._until and not within[id, end]
            ]
            if missing and id not in late:
                found.lost.append(
                    _lost(message, ", ".join(f"window until {end}" for end in missing))
                )

    def _is_right(self, window: _Window, inside: Sequence[Event]) -> bool:
        """Return True if the window may be shown and its content is right.

        That includes its bounds, the order of its messages by time, and those of its last slide as
        new ones.
        """
        times = [event.at for event in inside]
        return (
            window.end % SLIDE_MS == 0
            and window.end <= self._until
            and window.start == window.end - LENGTH_MS
            and bool(times)
            and all(window.start < at <= window.end for at in times)
            and times == sorted(times)
            and window.new == [event.id for event in inside if event.at > window.end - SLIDE_MS]
        )

    def check_spans(self, records: Iterable[Record], late: Mapping[str, int]) -> None:
        """Check that the sums of each window occur once.

        A sum does not name its window, and consecutive windows may have equal sums.
        """
        found = self.findings
        left: Counter[tuple[str, tuple[int, ...]]] = Counter()
        last: dict[tuple[str, tuple[int, ...]], SourceMessage] = {}
        for side in _SIDES:
            inside = [
                each
                for each in self.messages.values()
                if each.event.side == side and each.event.id not in late
            ]
            for sums, message in _spans(sorted(inside, key=_at), self._until):
                left[side, sums] += 1
                last[side, sums] = message
        for record in records:
            try:
                span = _read_span(record.value)
            except msgspec.MsgspecError:
                found.corrupted.append(record)
                continue
            if left[span.side, span.span] > 0:
                left[span.side, span.span] -= 1
            elif (span.side, span.span) in last:
                found.duplicates.append(_copy(f"the sums {span.span} of {span.side}", record))
            else:
                found.corrupted.append(record)
        for each, missing in left.items():
            if missing > 0:
                found.lost.append(
                    _lost(last[each], f"sums: {each[1]} of {each[0]}, {missing} times")
                )

    # Joins.

    def check_pairs(
        self,
        name: str,
        records: Iterable[Record],
        read: "msgspec.json.Decoder[_Pair] | msgspec.json.Decoder[_Joined]",
        late: Mapping[str, int],
        window_ms: int | None,
    ) -> None:
        """Check that each pair of a group occurs once.

        With `window_ms`, these are the pairs within one window of which neither is late.
        """
        found = self.findings
        due = {
            (left.event.id, right.event.id): (left, right)
            for left, right in self._pairs(late, window_ms)
        }
        there: set[tuple[str, str]] = set()
        for record in records:
            try:
                pair = read.decode(record.value)
            except msgspec.MsgspecError:
                found.corrupted.append(record)
                continue
            ids = pair.left, pair.right
            if ids not in due or due[ids][0].event.group != pair.group:
                found.corrupted.append(record)
            elif ids in there:
                found.duplicates.append(_copy(f"{name}: {pair.left} with {pair.right}", record))
            else:
                there.add(ids)
                if window_ms is None:  # a pair waits only for its second half
                    found.spans.append((max(each.came for each in due[ids]), record.timestamp))
        for ids, (left, right) in due.items():
            if ids not in there:
                found.lost.append(
                    _lost(max(left, right, key=_came), f"{name}: {ids[0]} with {ids[1]}")
                )

    def _pairs(
        self, late: Mapping[str, int], window_ms: int | None
    ) -> Iterator[tuple[SourceMessage, SourceMessage]]:
        groups: defaultdict[str, tuple[list[SourceMessage], list[SourceMessage]]] = defaultdict(
            lambda: ([], [])
        )
        for message in self.messages.values():
            groups[message.event.group][_SIDES.index(message.event.side)].append(message)
        for left, right in groups.values():
            for one, other in product(left, right):
                if window_ms is not None:
                    ends = {-(-each.event.at // window_ms) * window_ms for each in (one, other)}
                    if (
                        len(ends) > 1
                        or max(ends) > self._until
                        or one.event.id in late
                        or other.event.id in late
                    ):
                        continue
                yield one, other

    # All.

    def finish(self, evidence: Evidence) -> ChaosFindings:
        """Check dead letters and offsets, as for any topology."""
        found = self.findings
        letter_at = {letter.place for letter in evidence.letters}
        found.letters = sum(place in letter_at for place in evidence.poison)
        found.without_letter = [place for place in evidence.poison if place not in letter_at]
        found.given_up = [
            record.place
            for record in evidence.source
            if record.place in letter_at and record.place not in evidence.poison
        ]
        check_letters(self, evidence.source, evidence.letters, evidence.poison, evidence.parted)
        check_offsets(found, {}, evidence.offsets, evidence.ends)
        found.spans.sort()
        return found


def _event(record: Record) -> Event:
    """Return a message's content. An unreadable message gets its place as id."""
    try:
        return _read_event(record.value)
    except msgspec.MsgspecError:
        return Event("{}[{}]@{}".format(*record.place), 0, "", "", "")


def _ends(at: int) -> list[int]:
    """Return the ends of the windows that contain a time."""
    first = -(-at // SLIDE_MS) * SLIDE_MS
    return list(range(first, first + LENGTH_MS, SLIDE_MS))


def _spans(
    messages: Sequence[SourceMessage], until: int
) -> Iterator[tuple[tuple[int, int, int, int], SourceMessage]]:
    """Yield the sums of each window with some of these messages (sorted), and its last message."""
    if not messages:
        return
    times = [_at(each) for each in messages]
    sums = list(accumulate((crc32(each.event.id.encode()) for each in messages), initial=0))
    end = -(-times[0] // SPAN_SLIDE_MS) * SPAN_SLIDE_MS
    while end <= until:
        first, behind = bisect_right(times, end - LENGTH_MS), bisect_right(times, end)
        if first == len(times):
            return
        if first < behind:
            yield (
                (behind - first, sums[behind] - sums[first], times[first], times[behind - 1]),
                messages[behind - 1],
            )
            end += SPAN_SLIDE_MS
        else:
            end = -(-times[first] // SPAN_SLIDE_MS) * SPAN_SLIDE_MS


def _copy(what: str, record: Record) -> Duplicate:
    return Duplicate(what, record.timestamp, NEVER)


def _lost(message: SourceMessage, missing: str) -> LostMessage:
    return LostMessage(message.place, message.event.id, message.came, missing)


def _came(message: SourceMessage) -> int:
    return message.came


def _at(message: SourceMessage) -> int:
    return message.event.at


_read_event = msgspec.json.Decoder(Event).decode
_read_count = msgspec.json.Decoder(_Counted).decode
_read_told = msgspec.json.Decoder(_Told).decode
_read_late = msgspec.json.Decoder(_Late).decode
_read_window = msgspec.json.Decoder(_Window).decode
_read_span = msgspec.json.Decoder(_Span).decode
_read_pair = msgspec.json.Decoder(_Pair)
_read_joined = msgspec.json.Decoder(_Joined)
