"""What became of all trees of a topology, one after the other, as its acker log and its completions are read along.

An acker tells a spout of a tree that is complete or has failed. Of one that timed out nobody tells, as that is by the spout's own
clock: it is one that was not heard of for so long that the spout has given it up.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from kstorm.core.wire import AckFrame, CompletionFrame, decode, unpack_ids
from kstorm.errors import FrameError
from kstorm.inspect.gather import Record
from kstorm.inspect.outline import Outline

MOST_OPEN: Final = 500_000
"""Trees that are followed at once: some 80 MB."""
FAILED: Final = "failed"
TIMED_OUT: Final = "timed out"
SLOW: Final = "slow"
_LATEST: Final = 1.5
"""Message timeouts after which a spout has given a tree up."""
_SETTLE_MS: Final = 2000
"""By which news of it may be late."""
_RECENT: Final = 20_000
"""Complete trees that the slowest are measured against."""


class Outcome(NamedTuple):
    """A tree that failed, timed out, or was complete late."""

    root: int
    kind: str
    """`FAILED`, `TIMED_OUT` or `SLOW`."""
    begun: int
    """Unix time in ms, as `ended`."""
    ended: int


class Slow:
    """Which complete trees are slow: those that took longer than `ms`, or than all but a `share` of the last ones; else none."""

    def __init__(self, ms: float | None = None, share: float | None = None) -> None:
        self._ms, self._share = ms, share
        self._recent: deque[int] = deque(maxlen=_RECENT)

    @property
    def wanted(self) -> bool:
        """Whether it matters how long a tree took."""
        return self._ms is not None or self._share is not None

    def limit(self, took: Iterable[int]) -> float:
        """In ms, above which a tree is slow, when these have come, in ms each."""
        if self._share is not None:
            self._recent.extend(took)
            return float(np.quantile(self._recent, 1 - self._share)) if self._recent else 0
        return self._ms or 0


class Outcomes:
    """Takes records, those of the acker's log before the completions of the same time."""

    def __init__(self, topology: Outline, slow: Slow, most_open: int = MOST_OPEN) -> None:
        self._slow, self._most_open = slow, most_open
        self._tasks = {
            (topology.completions_topic(spout.id), index): task
            for spout in topology.spouts
            for index, task in enumerate(topology.task_ids(spout.id))
        }
        self._patience = patience_of(topology)
        self._open: dict[int, dict[int, int]] = {task: {} for task in self._patience}
        self._renewed: dict[int, int] = {}
        self._failed: list[Outcome] = []
        self._acked: list[tuple[int, int, int]] = []
        self.unknown = 0
        """Failures of trees whose beginning was not seen: they are left out."""
        self.forgotten = 0
        """Open trees that were let go of, as there were too many."""
        self.ended = 0
        """Trees that ended."""

    @property
    def open(self) -> int:
        """Trees that have not ended."""
        return sum(map(len, self._open.values()))

    def begin(self, record: Record) -> None:
        """Takes a record of the acker's log."""
        try:
            frame = decode(AckFrame, record.value)
            roots = unpack_ids(frame.init_roots)
        except FrameError:
            return
        mine = self._open.get(frame.task)
        if mine is None:
            return
        if frame.begins:  # the spout has begun anew, and waits for none of before
            for root in [root for root, begun in mine.items() if begun < record.timestamp]:
                del mine[root]
        mine.update(zip(roots, repeat(record.timestamp)))

    def end(self, record: Record) -> None:
        """Takes a record of completions."""
        mine = self._open.get(self._tasks.get((record.topic, record.partition), -1))
        try:
            frame = decode(CompletionFrame, record.value)
            acked, failed, reset = map(unpack_ids, (frame.acked, frame.failed, frame.reset))
        except FrameError:
            return
        if mine is None:
            return
        at = record.timestamp
        self.ended += len(acked) + len(failed)
        ended = [(begun, root) for root in acked if (begun := mine.pop(root, None)) is not None]
        if self._slow.wanted:
            self._acked += [(max(0, at - begun), root, begun) for begun, root in ended]
        for root in failed:
            begun = mine.pop(root, None)
            if begun is None:
                self.unknown += 1
            else:
                self._failed.append(Outcome(root, FAILED, begun, at))
        if self._renewed:
            for root in (*acked, *failed):
                self._renewed.pop(root, None)
        self._renewed |= {root: at for root in reset if root in mine}

    def take(self, now: int) -> Sequence[Outcome]:
        """What has ended badly or late until `now`, a Unix time in ms: failed and timed out first, then the slowest."""
        wrong = [*self._failed, *self._timed_out(now)]
        limit = self._slow.limit(took for took, _, _ in self._acked) if self._acked else 0
        slow = sorted((one for one in self._acked if one[0] > limit), reverse=True)
        self._failed, self._acked = [], []
        self._let_go()
        return wrong + [Outcome(root, SLOW, begun, begun + took) for took, root, begun in slow]

    def _timed_out(self, now: int) -> Iterator[Outcome]:
        for task, mine in self._open.items():
            patience = self._patience[task]
            over: list[tuple[int, int]] = []
            for root, begun in mine.items():  # in the order in which they began, or nearly so
                if begun + patience > now:
                    break
                if self._renewed.get(root, begun) + patience <= now:
                    over.append((root, begun))
            for root, begun in over:
                del mine[root]
                self._renewed.pop(root, None)
                yield Outcome(
                    root, TIMED_OUT, begun, int(begun + (patience - _SETTLE_MS) / _LATEST)
                )

    def _let_go(self) -> None:
        """Of the oldest, if there are too many."""
        most = self._most_open // max(1, len(self._open))
        for mine in self._open.values():
            for root in list(mine)[: max(0, len(mine) - most)]:
                del mine[root]
                self._renewed.pop(root, None)
                self.forgotten += 1


def patience_of(topology: Outline) -> Mapping[int, float]:
    """By spout task, milliseconds after which a tree of it has timed out for sure; infinite if it never does."""
    if topology.exactly_once:
        return {task: np.inf for spout in topology.spouts for task in topology.task_ids(spout.id)}
    return {
        task: _LATEST * spout.timeout_ms + _SETTLE_MS
        for spout in topology.spouts
        for task in topology.task_ids(spout.id)
    }
