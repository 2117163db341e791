"""Reads trees that began at about the same time, one or several at once, and no further than is needed.

What the ackers heard of them says what there is to be found, so that is read first: until each has ended, or nobody waits for it
any more. Of the tuples only so much is read as it takes.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final

from kstorm.inspect.gatherers import Gatherers, is_whole
from kstorm.inspect.outcomes import Outcome
from kstorm.inspect.outline import Outline
from kstorm.inspect.tree import Tree
from kstorm.runtime.tracing.log import Place, TopicLog
from kstorm.runtime.tracing.recent import Recent

SLACK_MS: Final = 1000
"""By which clocks of processes may differ, and records of one moment be apart."""
_FIRST_SLICE_MS: Final = 1000
_NEAR_MS: Final = 100
_AT_ONCE_MS: Final = 500
"""Most trees have all their tuples from so long before they begin, by the clocks of one machine, to so long after it."""
_MORE: Final = 4
"""By what each further slice of time is longer."""
_TOGETHER_MS: Final = 10_000
"""By which the beginnings of trees that are read together may be apart."""


def read_trees(topology: Outline, log: TopicLog, wanted: Sequence[Outcome]) -> Iterator[tuple[Outcome, Tree, bool]]:
    """The tree of each, oldest first, and whether all of it was read that is there: not if the log's budget is exhausted."""
    for together in _by_time(wanted):
        log.budget.doing = f"reading {len(together)} trees"
        roots = [outcome.root for outcome in together]
        reading = Reading(topology, log, roots, together[0].begun, together[-1].begun)
        found = reading.read(latest=max(outcome.ended for outcome in together) + SLACK_MS)
        for outcome in together:
            yield outcome, found[outcome.root], is_whole(found[outcome.root]) or not log.budget.exhausted


def _by_time(wanted: Sequence[Outcome]) -> Iterator[Sequence[Outcome]]:
    group: list[Outcome] = []
    for outcome in sorted(wanted, key=lambda one: one.begun):
        if group and outcome.begun - group[0].begun > _TOGETHER_MS:
            yield group
            group = []
        group.append(outcome)
    if group:
        yield group


class Reading:
    """Of trees that began between two Unix times in ms; all at that spout task, if one is given."""

    def __init__(
        self,
        topology: Outline,
        log: TopicLog,
        roots: Sequence[int],
        first: int,
        last: int,
        spout_task: int | None = None,
    ) -> None:
        self._topology, self._log, self._roots, self._first, self._last = topology, log, roots, first, last
        self._spout_task = spout_task
        self._gatherers = Gatherers(topology, roots)

    def read(self, patience: float = inf, latest: float = inf, recent: Recent | None = None) -> Mapping[int, Tree]:
        """The trees by root, as far as they had grown at the Unix time `latest` in ms. Nobody waits for one longer than `patience`,
        in ms. `recent`: the end of the logs, which may have been read already."""
        self._read_news(patience, latest, recent)
        for start, until in self._slices(min(max(self._heard(), default=self._last) + SLACK_MS, latest)):
            self._read(self._tuples(), start, until)
            if self._log.budget.exhausted or all(map(is_whole, self._build().values())):
                break
        return self._build()

    def _read_news(self, patience: float, latest: float, recent: Recent | None) -> None:
        """What the ackers heard of the trees, and what they told the spouts."""
        places = self._news()
        start, until = self._first - SLACK_MS, self._last + _FIRST_SLICE_MS
        end = min(self._last + patience, latest)
        while start < end and not self._log.budget.exhausted:
            self._read(places, start, min(until, end))
            start, until = until, until + (until - start) * _MORE
            end = min(max(self._heard("reset"), default=self._last) + patience, latest)
            if all(tree.ended is not None for tree in self._build().values()):
                return
            if recent is not None and start >= recent.since and latest == inf:
                for record in recent.records():
                    self._gatherers.take(record)
                return

    def _slices(self, end: float) -> Iterator[tuple[float, float]]:
        """Of the time in which the tuples are, the likeliest first."""
        yield self._first - _NEAR_MS, min(self._last + _AT_ONCE_MS, end)
        yield self._first - SLACK_MS, self._first - _NEAR_MS
        start, length = self._last + _AT_ONCE_MS, _FIRST_SLICE_MS
        while start < end:
            yield start, min(start + length, end)
            start, length = start + length, length * _MORE

    def _read(self, places: Sequence[Place], start: float, until: float) -> None:
        if start < until:
            first, behind = self._log.offsets_at(places, start), self._log.offsets_at(places, until)
            for record in self._log.read({place: (first[place], behind[place]) for place in places}):
                self._gatherers.take(record)

    def _build(self) -> Mapping[int, Tree]:
        return self._gatherers.build(self._roots)

    def _heard(self, kind: str = "") -> Iterator[int]:
        """When there was news of the trees, in ms: of one kind, or of any."""
        for found in self._gatherers.found:
            heard = [(one.kind, one.place) for one in found.news] + [(one.kind, one.place) for one in found.endings]
            yield from (place.timestamp for what, place in heard if kind in ("", what))

    def _tuples(self) -> Sequence[Place]:
        topology = self._topology
        return [(topology.bolt_topic(bolt.id), task) for bolt in topology.bolts for task in range(bolt.num_tasks)]

    def _news(self) -> Sequence[Place]:
        topology = self._topology
        ackers = sorted({root % topology.acker_tasks for root in self._roots})
        told = [place for place, task in completions(topology) if self._spout_task in (None, task)]
        return [*((topology.acker_topic, task) for task in ackers), *told]


def completions(topology: Outline) -> Iterator[tuple[Place, int]]:
    """Where spout tasks are told what became of their trees, each with the task."""
    for spout in topology.spouts:
        for index, task in enumerate(topology.task_ids(spout.id)):
            yield (topology.completions_topic(spout.id), index), task
