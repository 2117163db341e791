"""What became of each offset of a source partition, as the topic `<topology>.__finished` has it.

A record says of a range of offsets what became of them, and is in Kafka **before** an offset behind the range goes to
ZooKeeper. So every offset below a stored one is in some range, whatever dies and when. After a crash ranges overlap; they
never leave a gap. Nothing is counted for each message: what is no exception was acked, and only the exceptions are kept, until a
range that has them was confirmed. docs/audit.md has the record field by field.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kstorm.errors import FrameError
from kstorm.kafka.above import Run
from kstorm.texts import decode_json

VERSION: Final = 1
ACKED: Final = "acked"
"""All trees of the message were complete."""
COMMITTED: Final = "committed"
"""Exactly once: whatever was to be emitted is committed, and nobody has heard how the trees ended."""
CLAIMED: Final = "claimed"
"""The spout promises less than at least once."""
MOST_DEAD: Final = 5_000
"""Most runs of dead letters in a record. A range ends before the next one, and another follows it."""
_MOST_LISTED: Final = 1_000
"""Most runs of empty and of retried messages that are listed; their number is right whatever is listed."""


class Skipped(
    msgspec.Struct, frozen=True, omit_defaults=True, rename={"start": "from", "end": "to"}
):
    """Offsets that nobody was to process. If `end` is below `start`, the partition is read again from there."""

    start: int
    end: int
    why: str
    who: str = ""
    """The user who wanted it; empty: the spout did it by itself."""


class FinishedRange(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"start": "from", "end": "to"},
):
    """One record: the offsets from `start` to `end`, that one not included."""

    v: int
    reading: str = ""
    """The node of ZooKeeper under which the partition's offset is; it names the reading, as two spouts may read one topic."""
    spout: str = ""
    task: int = 0
    """Topology-wide id of the spout task; 0 if an operator has moved the offset."""
    session: str = ""
    """Another one for each life of a task."""
    topic: str = ""
    partition: int = -1
    """Never left out, as its default is no partition."""
    start: int
    end: int
    since: int = 0
    """Unix time in ms: nothing of it was emitted before, by this session."""
    at: int = 0
    """Unix time in ms when this was written."""
    n: dict[str, int]
    """How many offsets had which outcome; what there was none of is left out. The sum is `end - start`."""
    dead: list[Run] = []
    """All that are among the dead letters."""
    empty: list[Run] = []
    """The first ones that held nothing to process."""
    retried: list[tuple[int, int, int]] = []
    """The first ones that were emitted more than once, each run with how often."""
    skipped: list[Skipped] = []

    @property
    def key(self) -> bytes:
        """The record's key: a range that is written again takes the place of the same one, and of no other."""
        return f"{self.reading}/{self.topic}/{self.partition}/{self.start}-{self.end}".encode()

    def encode(self) -> bytes:
        """The record's value."""
        return msgspec.json.encode(self)


def decode_range(data: bytes) -> FinishedRange:
    """Reads a record's value back; raises `FrameError` if it is none."""
    found = decode_json(data, FinishedRange, "no finished range")
    if found.v != VERSION:
        raise FrameError(f"a finished range of version {found.v}: this release reads {VERSION}")
    return found


def moved(
    stored: int, end: int, why: str, who: str = "", position: int = 0
) -> FinishedRange | None:
    """An offset is to be stored that is not behind what was done, but at `end`; None if that changes nothing. Exactly once, a
    `position` beyond `stored` says up to where all is committed."""
    reached = max(stored, position)
    if stored == reached == end:
        return None
    counts = _counts(committed=max(0, min(reached, end) - stored), skipped=max(0, end - reached))
    skipped = [Skipped(reached, end, why, who)] if reached != end else []
    return FinishedRange(v=VERSION, start=stored, end=end, n=counts, skipped=skipped)


class Outcomes:
    """Of one partition, what became of the offsets from `start` on. `start` is where the last confirmed range ended.

    What lies between `start` and `reached` was committed by a former life, exactly once. `rest` is what became of a message that is
    no exception. With `claims` an offset says nothing but that nobody will emit what is below it, so nothing else is noted.
    """

    def __init__(
        self,
        start: int,
        reached: int | None = None,
        *,
        rest: str = ACKED,
        claims: bool = False,
        now: int = 0,
    ) -> None:
        self.start = start
        self._reached = start if reached is None else reached
        self._rest, self._claims = rest, claims
        self._begun = deque(
            [(start, now)]
        )  # offsets, each with a time before which nothing from there on was emitted
        self._absent: deque[Run] = deque()
        self._skipped: list[Skipped] = []
        self._empty: set[int] = set()
        self._dead: set[int] = set()
        self._retried: dict[int, int] = {}

    def gap(self, first: int, end: int) -> None:
        """The partition has no message there, but what was skipped may have been some."""
        if self._claims:
            return
        for skip in self._skipped:
            if skip.start < end and first < skip.end:
                if first < skip.start:
                    self._absent.append((first, skip.start))
                first = skip.end
        if first < end:
            self._absent.append((first, end))

    def empty(self, offset: int) -> None:
        """A message held nothing to process."""
        if not self._claims:
            self._empty.add(offset)

    def dead(self, offset: int) -> None:
        """A message becomes a dead letter; its offset is passed when that is stored."""
        if not self._claims:
            self._dead.add(offset)

    def retried(self, offset: int, attempts: int) -> None:
        """A message was emitted again."""
        self._retried[offset] = attempts

    def skip(self, first: int, end: int, why: str) -> None:
        """Nothing from `first` to `end` will be processed."""
        if first < end:
            self._skipped.append(Skipped(first, end, why))

    def begin(self, offset: int, now: int) -> None:
        """Nothing from `offset` on has been emitted before `now`, in ms."""
        if self._begun[-1][0] == offset:
            self._begun.pop()
        self._begun.append((offset, now))

    def most(self, end: int) -> int:
        """How far a range to `end` may go, as all its dead letters are to be in the record."""
        if len(self._dead) <= MOST_DEAD:
            return end
        runs = list(_runs(self._below(self._dead, end)))
        return end if len(runs) <= MOST_DEAD else runs[MOST_DEAD][0]

    def until(self, end: int) -> FinishedRange | None:
        """What became of all from `start` to `end`; None if that is nothing."""
        start = self.start
        if end <= start:
            return None
        empty, dead = self._below(self._empty, end), self._below(self._dead, end)
        skipped = [
            Skipped(max(start, skip.start), min(end, skip.end), skip.why, skip.who)
            for skip in self._skipped
            if skip.start < end and start < skip.end
        ]
        known = _counts(
            committed=max(0, min(end, self._reached) - start),
            absent=sum(
                max(0, min(end, behind) - max(start, first)) for first, behind in self._absent
            ),
            empty=len(empty),
            dead=len(dead),
            skipped=sum(skip.end - skip.start for skip in skipped),
        )
        known.pop(self._rest, None)
        return FinishedRange(
            v=VERSION,
            start=start,
            end=end,
            since=next(now for first, now in reversed(self._begun) if first <= start),
            n=_counts(**{self._rest: end - start - sum(known.values())}) | known,
            dead=list(_runs(dead))[:MOST_DEAD],
            empty=list(_runs(empty))[:_MOST_LISTED],
            retried=self._retried_below(end)[:_MOST_LISTED],
            skipped=skipped,
        )

    def confirmed(self, end: int) -> None:
        """A range to `end` is in Kafka: what it says is not kept any more."""
        if end <= self.start:
            return
        self.start = end
        while len(self._begun) > 1 and self._begun[1][0] <= end:
            self._begun.popleft()
        while self._absent and self._absent[0][1] <= end:
            self._absent.popleft()
        self._skipped = [skip for skip in self._skipped if skip.end > end]
        self._empty -= set(self._below(self._empty, end))
        self._dead -= set(self._below(self._dead, end))
        for offset in self._below(self._retried, end):
            del self._retried[offset]

    def _retried_below(self, end: int) -> list[tuple[int, int, int]]:
        return [
            (*run, attempts)
            for attempts in sorted(set(self._retried.values()))
            for run in _runs(
                self._below([at for at, count in self._retried.items() if count == attempts], end)
            )
        ]

    def exceptions(self, first: int) -> list[Run]:
        """What from `first` on is finished, or will be, and was not acked; in no order."""
        single = ((offset, offset + 1) for offset in (*self._dead, *self._empty))
        skipped = ((skip.start, skip.end) for skip in self._skipped)
        return [run for run in (*single, *self._absent, *skipped) if run[1] > first]

    @staticmethod
    def _below(offsets: Iterable[int], end: int) -> list[int]:
        return sorted(offset for offset in offsets if offset < end)


def _runs(offsets: Iterable[int]) -> Iterator[Run]:
    """Sorted offsets, those in a row as one."""
    first = behind = -1
    for offset in offsets:
        if offset != behind:
            if behind >= 0:
                yield first, behind
            first = offset
        behind = offset + 1
    if behind >= 0:
        yield first, behind


def _counts(**counts: int) -> dict[str, int]:
    return {outcome: count for outcome, count in counts.items() if count}
