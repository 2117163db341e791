"""Outcomes of a source partition's offsets, as recorded in the topic `<topology>.__finished`.

A record contains the outcome of a range of offsets. It is in Kafka **before** an offset beyond the
range is stored in ZooKeeper. So every offset below a stored one is in some range, even after a
crash. After a crash ranges may overlap, but they never leave a gap. Messages are not counted
individually. Every message that is not an exception was acked, and exceptions are kept only until a
range that contains them is confirmed. docs/guides/audit.md describes each field of the record.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kstorm.errors import FrameError
from kstorm.kafka.completed_ranges import Run
from kstorm.texts import decode_json

VERSION: Final = 1
ACKED: Final = "acked"
"""All tuple trees of the message were complete."""
COMMITTED: Final = "committed"
"""Exactly-once processing: the message's output is committed, without tracking its tuple trees."""
CLAIMED: Final = "claimed"
"""The spout's guarantee is weaker than at least once."""
MOST_DEAD: Final = 5_000
"""Maximum runs of dead letters in a record. A range ends before a run that exceeds it."""
_MOST_LISTED: Final = 1_000
"""Maximum listed runs of empty and of retried messages. The counts are exact in any case."""


class Skipped(
    msgspec.Struct, frozen=True, omit_defaults=True, rename={"start": "from", "end": "to"}
):
    """Offsets that were skipped.

    If `end` is below `start`, the partition is read again from `end`.
    """

    start: int
    end: int
    why: str
    who: str = ""
    """The user who requested it, or "" if the spout itself skipped them."""


class FinishedRange(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"start": "from", "end": "to"},
):
    """One record: the offsets from `start` up to, but not including, `end`."""

    v: int
    reading: str = ""
    """The ZooKeeper node of the partition's offset. It is part of the record because two spouts may
    read the same topic."""
    spout: str = ""
    task: int = 0
    """Topology-wide id of the spout task, or 0 if an operator moved the offset."""
    session: str = ""
    """A new value each time a task starts."""
    topic: str = ""
    partition: int = -1
    """This field is always written, because the default is not a valid partition."""
    start: int
    end: int
    since: int = 0
    """Unix time in ms. This session emitted no message of the range before that time."""
    at: int = 0
    """Unix time in ms when this was written."""
    n: dict[str, int]
    """Number of offsets per outcome, without zeros. The sum is `end - start`."""
    dead: list[Run] = []
    """All offsets with dead letters."""
    empty: list[Run] = []
    """The first runs of messages that produced no tuples."""
    retried: list[tuple[int, int, int]] = []
    """The first runs of messages that were emitted more than once: first, end, attempts."""
    skipped: list[Skipped] = []

    @property
    def key(self) -> bytes:
        """The record's key: rewriting a range replaces exactly that range."""
        return f"{self.reading}/{self.topic}/{self.partition}/{self.start}-{self.end}".encode()

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def decode_range(data: bytes) -> FinishedRange:
    """Decode a record's value. Raises `FrameError` if it is invalid."""
    found = decode_json(data, FinishedRange, "a finished range")
    if found.v != VERSION:
        raise FrameError(
            f"a finished range has version {found.v}, but this release reads {VERSION}"
        )
    return found


def moved_range(
    stored: int, end: int, why: str, who: str = "", position: int = 0
) -> FinishedRange | None:
    """Return the range for an offset that is moved to `end`, or None if nothing changes.

    With exactly-once processing, the offsets below `position`, which may be beyond `stored`, are
    committed.
    """
    reached = max(stored, position)
    if stored == reached == end:
        return None
    counts = _counts(committed=max(0, min(reached, end) - stored), skipped=max(0, end - reached))
    skipped = [Skipped(reached, end, why, who)] if reached != end else []
    return FinishedRange(v=VERSION, start=stored, end=end, n=counts, skipped=skipped)


class OffsetOutcomes:
    """Outcomes of one partition from `start`, where the last confirmed range ended.

    With exactly-once processing, an earlier run committed the offsets between `start` and
    `reached`. `rest` is the outcome of messages without an exception. With `claims` (at most once),
    a stored offset only means that lower offsets will not be emitted, so other outcomes are not
    recorded.
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
        # Offsets, each with a time before which no offset from there on was emitted.
        self._begun = deque([(start, now)])
        self._absent: deque[Run] = deque()
        self._skipped: list[Skipped] = []
        self._empty: set[int] = set()
        self._dead: set[int] = set()
        self._retried: dict[int, int] = {}

    def gap(self, first: int, end: int) -> None:
        """Record offsets without a message. Offsets that are already recorded as skipped remain
        skipped."""
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
        """Record a message that produced no tuples."""
        if not self._claims:
            self._empty.add(offset)

    def dead(self, offset: int) -> None:
        """Record a dead letter. The offset advances past it once the letter is stored."""
        if not self._claims:
            self._dead.add(offset)

    def retried(self, offset: int, attempts: int) -> None:
        """Record that a message was emitted again."""
        self._retried[offset] = attempts

    def skip(self, first: int, end: int, why: str) -> None:
        """Record that the offsets from `first` to `end` will not be processed."""
        if first < end:
            self._skipped.append(Skipped(first, end, why))

    def begin(self, offset: int, now: int) -> None:
        """Record that no message from `offset` on was emitted before `now`, in ms."""
        if self._begun[-1][0] == offset:
            self._begun.pop()
        self._begun.append((offset, now))

    def most(self, end: int) -> int:
        """Limit `end` so that all dead letters below it fit into one record."""
        if len(self._dead) <= MOST_DEAD:
            return end
        runs = list(_runs(self._below(self._dead, end)))
        return end if len(runs) <= MOST_DEAD else runs[MOST_DEAD][0]

    def until(self, end: int) -> FinishedRange | None:
        """Return the outcomes from `start` to `end`, or None if the range is empty."""
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
        """Forget the outcomes below `end`, because a range that contains them is in Kafka."""
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
        """Return runs from `first` on whose outcome is not an ack, in any order."""
        single = ((offset, offset + 1) for offset in (*self._dead, *self._empty))
        skipped = ((skip.start, skip.end) for skip in self._skipped)
        return [run for run in (*single, *self._absent, *skipped) if run[1] > first]

    @staticmethod
    def _below(offsets: Iterable[int], end: int) -> list[int]:
        return sorted(offset for offset in offsets if offset < end)


def _runs(offsets: Iterable[int]) -> Iterator[Run]:
    """Merge sorted offsets into runs."""
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
