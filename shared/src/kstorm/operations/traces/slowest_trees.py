"""Find the slowest trees, from the inits of all trees and the completions. Uses numpy arrays, as
there may be millions of trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kstorm.core.wire import AckFrame, CompletionFrame, decode
from kstorm.errors import FrameError
from kstorm.introspection.outline import Outline
from kstorm.operations.traces.topic_log import Ranges, TopicLog

if TYPE_CHECKING:
    import numpy as np


class _Column:
    """Root IDs, each with a Unix time in ms."""

    def __init__(self) -> None:
        self._roots: list[bytes] = []
        self._times: list[int] = []

    def add(self, roots: bytes, ms: int) -> None:
        if roots:
            self._roots.append(roots)
            self._times.append(ms)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the roots in sorted order, each with its first time."""
        import numpy as np  # takes a tenth of a second

        roots = np.frombuffer(b"".join(self._roots), "<u8")
        times = np.repeat(np.array(self._times, np.int64), [len(part) // 8 for part in self._roots])
        found, first = np.unique(roots, return_index=True)
        return found, times[first]


def slowest_trees(
    topology: Outline, log: TopicLog, since: int, count: int, *, open_at: int | None = None
) -> Sequence[tuple[int, int]]:
    """Return the `count` slowest acked trees, slowest first: root and start time.

    Only trees that were started after `since` are included. With `open_at`, they must also have
    been open at that time. All times are Unix times in ms.
    """
    log.budget.doing = "looking for slow trees"
    ackers = [(topology.acker_topic, task) for task in range(topology.acker_tasks)]
    spouts = [
        (topology.completions_topic(spout.id), index)
        for spout in topology.spouts
        for index in range(spout.num_tasks)
    ]
    begun, acked = _Column(), _Column()
    starts_at = log.offsets_at([*ackers, *spouts], since)
    ranges: Ranges = {place: (start, log.bounds(place).end) for place, start in starts_at.items()}
    for record in log.read(ranges):
        try:
            if record.topic == topology.acker_topic:
                begun.add(decode(AckFrame, record.value).init_roots, record.timestamp)
            else:
                acked.add(decode(CompletionFrame, record.value).acked, record.timestamp)
        except FrameError:
            continue
    import numpy as np  # takes a tenth of a second

    roots, starts = begun.arrays()
    ended, ends = acked.arrays()
    both, at, of = np.intersect1d(roots, ended, assume_unique=True, return_indices=True)
    begins, took = starts[at], ends[of] - starts[at]
    if open_at is not None:
        there = (begins <= open_at) & (begins + took >= open_at)
        both, begins, took = both[there], begins[there], took[there]
    order = np.argsort(-took, kind="stable")[:count]
    return [(int(both[row]), int(begins[row])) for row in order]
