"""Track the outcome of every tree of a topology from its acker log and completions.

An acker sends a completion for a tree that is complete or has failed. A timeout is not recorded,
because the spout detects it by its own clock. A tree counts as timed out when its spout must have
given up on it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from math import inf
from typing import Final, NamedTuple

from kstorm.core.wire import AckFrame, CompletionFrame, decode, unpack_ids
from kstorm.errors import FrameError
from kstorm.introspection.outline import Outline
from kstorm.operations.trees.tree_reader import TopicRecord

MOST_OPEN: Final = 500_000
"""Limit on the trees tracked at once, which take some 80 MB."""
FAILED: Final = "failed"
TIMED_OUT: Final = "timed out"
SLOW: Final = "slow"
_LATEST: Final = 1.5
"""After this multiple of the message timeout, a spout has certainly given up on a tree."""
_SETTLE_MS: Final = 2000
"""Allowance for late completions."""
_RECENT: Final = 20_000
"""The slowest share is computed from this number of recent complete trees."""


class TreeOutcome(NamedTuple):
    """A tree that failed, timed out or was slow."""

    root: int
    kind: str
    """`FAILED`, `TIMED_OUT` or `SLOW`."""
    begun: int
    """Unix time in ms, like `ended`."""
    ended: int


class SlownessRule:
    """Decides which complete trees are slow.

    A tree is slow if it took longer than `ms`, or if it is among the slowest `share` of recent
    trees. Without either setting, no tree is slow.
    """

    def __init__(self, ms: float | None = None, share: float | None = None) -> None:
        self._ms, self._share = ms, share
        self._recent: deque[int] = deque(maxlen=_RECENT)

    @property
    def wanted(self) -> bool:
        """True if durations matter."""
        return self._ms is not None or self._share is not None

    def limit(self, took: Iterable[int]) -> float:
        """Add durations in ms and return the limit in ms above which a tree is slow."""
        if self._share is not None:
            self._recent.extend(took)
            import numpy as np  # takes a tenth of a second

            return float(np.quantile(self._recent, 1 - self._share)) if self._recent else 0
        return self._ms or 0


class OutcomeTracker:
    """Tracks trees from records.

    Records of the acker log must come before completions of the same time.
    """

    def __init__(self, topology: Outline, slow: SlownessRule, most_open: int = MOST_OPEN) -> None:
        self._slow, self._most_open = slow, most_open
        self._tasks = {
            (topology.completions_topic(spout.id), index): task
            for spout in topology.spouts
            for index, task in enumerate(topology.task_ids(spout.id))
        }
        self._patience = timeouts_of(topology)
        self._open: dict[int, dict[int, int]] = {task: {} for task in self._patience}
        self._renewed: dict[int, int] = {}
        self._failed: list[TreeOutcome] = []
        self._acked: list[tuple[int, int, int]] = []
        self.unknown = 0
        """Number of failures that were ignored, because the start of the tree is missing."""
        self.forgotten = 0
        """Number of open trees that were dropped because there were too many."""
        self.ended = 0
        """Number of trees that ended."""

    @property
    def open(self) -> int:
        return sum(map(len, self._open.values()))

    def begin(self, record: TopicRecord) -> None:
        """Process a record of the acker log."""
        try:
            frame = decode(AckFrame, record.value)
            roots = unpack_ids(frame.init_roots)
        except FrameError:
            return
        mine = self._open.get(frame.task)
        if mine is None:
            return
        # The spout has restarted and no longer tracks its earlier trees.
        if frame.begins:
            for root in [root for root, begun in mine.items() if begun < record.timestamp]:
                del mine[root]
        mine.update(zip(roots, repeat(record.timestamp)))

    def end(self, record: TopicRecord) -> None:
        """Process a completion record."""
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
                self._failed.append(TreeOutcome(root, FAILED, begun, at))
        if self._renewed:
            for root in (*acked, *failed):
                self._renewed.pop(root, None)
        self._renewed |= {root: at for root in reset if root in mine}

    def take(self, now: int) -> Sequence[TreeOutcome]:
        """Return the trees that failed, timed out or were slow until `now`, a Unix time in ms.

        Slow trees come last, the slowest first.
        """
        wrong = [*self._failed, *self._timed_out(now)]
        limit = self._slow.limit(took for took, _, _ in self._acked) if self._acked else 0
        slow = sorted((one for one in self._acked if one[0] > limit), reverse=True)
        self._failed, self._acked = [], []
        self._let_go()
        return wrong + [TreeOutcome(root, SLOW, begun, begun + took) for took, root, begun in slow]

    def _timed_out(self, now: int) -> Iterator[TreeOutcome]:
        for task, mine in self._open.items():
            patience = self._patience[task]
            over: list[tuple[int, int]] = []
            # The trees are roughly in the order of their starts.
            for root, begun in mine.items():
                if begun + patience > now:
                    break
                if self._renewed.get(root, begun) + patience <= now:
                    over.append((root, begun))
            for root, begun in over:
                del mine[root]
                self._renewed.pop(root, None)
                yield TreeOutcome(
                    root, TIMED_OUT, begun, int(begun + (patience - _SETTLE_MS) / _LATEST)
                )

    def _let_go(self) -> None:
        """Drop the oldest trees if there are too many."""
        most = self._most_open // max(1, len(self._open))
        for mine in self._open.values():
            for root in list(mine)[: max(0, len(mine) - most)]:
                del mine[root]
                self._renewed.pop(root, None)
                self.forgotten += 1


def timeouts_of(topology: Outline) -> Mapping[int, float]:
    """Return for each spout task the milliseconds after which a tree has certainly timed out.

    Infinite if trees never time out.
    """
    if topology.exactly_once:
        return {task: inf for spout in topology.spouts for task in topology.task_ids(spout.id)}
    return {
        task: _LATEST * spout.timeout_ms + _SETTLE_MS
        for spout in topology.spouts
        for task in topology.task_ids(spout.id)
    }
