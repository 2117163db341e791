"""Read one or several trees that were started at about the same time, and no more records than
needed.

The ackers' logs show which tuples exist. So they are read first, until each tree has ended or timed
out. Then tuple frames are read until all of these tuples are found.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final, TypeVar

from kstorm.introspection.outline import Outline
from kstorm.operations.traces.recent_records import RecentRecords
from kstorm.operations.traces.time_ranges import TimeRange, TimeRanges
from kstorm.operations.traces.topic_log import PartitionId, TopicLog
from kstorm.operations.trees.multi_tree_reader import MultiTreeReader, is_whole
from kstorm.operations.trees.outcomes import TreeOutcome
from kstorm.operations.trees.tree import Tree

SLACK_MS: Final = 1000
"""Tolerance in ms for differences between clocks, and between records of the same moment."""
_FIRST_SLICE_MS: Final = 1000
_NEAR_MS: Final = 100
_AT_ONCE_MS: Final = 500
"""All tuples of most trees are sent between `_NEAR_MS` before their start and this time after it."""
_MORE: Final = 4
"""Each time range that is read is this many times longer than the previous one."""
_TOGETHER_MS: Final = 10_000
"""Largest difference between the starts of trees that are read together."""
_T = TypeVar("_T")


def read_trees(
    topology: Outline, log: TopicLog, wanted: Sequence[TreeOutcome]
) -> Iterator[tuple[TreeOutcome, Tree, bool]]:
    """Yield the trees, oldest first. The flag is false if the budget was exhausted before the tree
    was read completely."""
    for together in by_time(wanted, lambda outcome: outcome.begun):
        log.budget.doing = f"reading {len(together)} trees"
        reading = TreeBatch(topology, log, {outcome.root: outcome.begun for outcome in together})
        found = reading.read(latest=max(outcome.ended for outcome in together) + SLACK_MS)
        for outcome in together:
            yield (
                outcome,
                found[outcome.root],
                is_whole(found[outcome.root]) or not log.budget.exhausted,
            )


def by_time(
    wanted: Iterable[_T], begun: Callable[[_T], int], recent: float = inf
) -> Iterator[Sequence[_T]]:
    """Yield groups of items to read together, by Unix times in ms.

    A group covers ten seconds. All items since `recent` are in one group.
    """
    group: list[_T] = []
    for one in sorted(wanted, key=begun):
        if group and begun(one) - begun(group[0]) > _TOGETHER_MS and begun(group[0]) < recent:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


class TreeBatch:
    """Reads trees by their approximate start as Unix times in ms. With `spout_task`, all of them
    are from that task."""

    def __init__(
        self,
        topology: Outline,
        log: TopicLog,
        begun: Mapping[int, int],
        spout_task: int | None = None,
    ) -> None:
        self._topology, self._log, self._begun, self._spout_task = topology, log, begun, spout_task
        self._first, self._last = min(begun.values()), max(begun.values())
        self._gatherers = MultiTreeReader(topology, begun)

    def read(
        self, patience: float = inf, latest: float = inf, recent: RecentRecords | None = None
    ) -> Mapping[int, Tree]:
        """Return the trees by root, as of the Unix time `latest` in ms.

        `patience` is the longest time in ms until a tree times out. `recent` is the end of the
        logs, which may already be in memory.
        """
        self._read_news(patience, latest, recent)
        ends = {root: min(self._last_heard(root) + SLACK_MS, latest) for root in self._begun}
        spans = TimeRanges()
        for start, until in _slices():
            left = [root for root, tree in self._build().items() if not is_whole(tree)]
            left = [root for root in left if self._begun[root] + start < ends[root]]
            if not left or self._log.budget.exhausted:
                break
            wanted = [
                (self._begun[root] + start, min(self._begun[root] + until, ends[root]))
                for root in left
            ]
            for span in spans.fresh(wanted):
                self._read(self._tuples(), *span)
        return self._build()

    def _read_news(self, patience: float, latest: float, recent: RecentRecords | None) -> None:
        """Read the ackers' logs and the completions of the trees."""
        places = self._news()
        start, until = self._first - SLACK_MS, self._last + _FIRST_SLICE_MS
        end = min(self._last + patience, latest)
        while start < end and not self._log.budget.exhausted:
            if recent is not None and start >= recent.since and latest == inf:
                for record in recent.records():
                    self._gatherers.take(record)
                return
            self._read(places, start, min(until, end))
            start, until = until, until + (until - start) * _MORE
            end = min(max(self._resets(), default=self._last) + patience, latest)
            if all(tree.ended is not None for tree in self._build().values()):
                return

    def _read(self, places: Sequence[PartitionId], start: float, until: float) -> None:
        if start < until:
            first, behind = self._log.offsets_at(places, start), self._log.offsets_at(places, until)
            for record in self._log.read(
                {place: (first[place], behind[place]) for place in places}
            ):
                self._gatherers.take(record)

    def _build(self) -> Mapping[int, Tree]:
        return self._gatherers.build(self._begun)

    def _last_heard(self, root: int) -> int:
        return max((ms for _, ms in self._heard(root)), default=self._begun[root])

    def _resets(self) -> Iterator[int]:
        """Yield the times in ms at which timeouts of the trees were reset."""
        return (ms for root in self._begun for kind, ms in self._heard(root) if kind == "reset")

    def _heard(self, root: int) -> Iterator[tuple[str, int]]:
        """Yield kind and time in ms of each event of a tree."""
        found = self._gatherers.of(root)
        yield from ((news.kind, news.place.timestamp) for news in found.news)
        yield from ((ending.kind, ending.place.timestamp) for ending in found.endings)

    def _tuples(self) -> Sequence[PartitionId]:
        topology = self._topology
        return [
            (topology.bolt_topic(bolt.id), task)
            for bolt in topology.bolts
            for task in range(bolt.num_tasks)
        ]

    def _news(self) -> Sequence[PartitionId]:
        topology = self._topology
        ackers = sorted({root % topology.acker_tasks for root in self._begun})
        told = [place for place, task in completions(topology) if self._spout_task in (None, task)]
        return [*((topology.acker_topic, task) for task in ackers), *told]


def _slices() -> Iterator[TimeRange]:
    """Yield time ranges relative to a tree's start, the most likely ones first."""
    yield -_NEAR_MS, _AT_ONCE_MS
    yield -SLACK_MS, -_NEAR_MS
    start, length = float(_AT_ONCE_MS), float(_FIRST_SLICE_MS)
    while True:
        yield start, start + length
        start, length = start + length, length * _MORE


def completions(topology: Outline) -> Iterator[tuple[PartitionId, int]]:
    """Yield the partition with the completions of each spout task, and the task."""
    for spout in topology.spouts:
        for index, task in enumerate(topology.task_ids(spout.id)):
            yield (topology.completions_topic(spout.id), index), task
