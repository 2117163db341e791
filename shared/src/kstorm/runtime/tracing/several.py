"""Reads several trees of about the same time at once, and no further than is needed.

First what the ackers heard of them, which says what there is to be found; then the tuples, from when the trees began.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kstorm.inspect.gatherers import Gatherers, is_whole
from kstorm.inspect.outcomes import Outcome
from kstorm.inspect.outline import Outline
from kstorm.inspect.tree import Tree
from kstorm.runtime.tracing.log import Place, TopicLog

_SLACK_MS: Final = 1000
"""By which clocks of processes may differ, and records of one moment be apart."""
_FIRST_SLICE_MS: Final = 1000
_MORE: Final = 4
"""By what each further slice of time is longer."""
_TOGETHER_MS: Final = 10_000
"""By which the beginnings of trees that are read together may be apart."""


def read_trees(topology: Outline, log: TopicLog, wanted: Sequence[Outcome]) -> Iterator[tuple[Outcome, Tree, bool]]:
    """The tree of each, oldest first, and whether all of it was read that is there: not if the log's budget is exhausted."""
    for together in _by_time(wanted):
        found = _Reading(topology, log, together).read()
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


class _Reading:
    def __init__(self, topology: Outline, log: TopicLog, wanted: Sequence[Outcome]) -> None:
        self._topology, self._log = topology, log
        self._roots = [outcome.root for outcome in wanted]
        self._gatherers = Gatherers(topology, self._roots)
        self._start = min(outcome.begun for outcome in wanted) - _SLACK_MS
        self._begun = max(outcome.begun for outcome in wanted)
        self._end = max(outcome.ended for outcome in wanted) + _SLACK_MS

    def read(self) -> Mapping[int, Tree]:
        """By root."""
        self._log.budget.doing = f"reading {len(self._roots)} trees"
        self._read(self._news(), self._start, self._end)
        places, at, length = self._tuples(), self._start, _FIRST_SLICE_MS
        until = self._begun + _SLACK_MS
        while True:
            self._read(places, at, until)
            trees = self._gatherers.build(self._roots)
            if until >= self._end or self._log.budget.exhausted or all(map(is_whole, trees.values())):
                return trees
            at, until, length = until, min(until + length, self._end), length * _MORE

    def _read(self, places: Sequence[Place], start: int, until: int) -> None:
        first, last = self._log.offsets_at(places, start), self._log.offsets_at(places, until)
        for record in self._log.read({place: (first[place], last[place]) for place in places}):
            self._gatherers.take(record)

    def _tuples(self) -> Sequence[Place]:
        topology = self._topology
        return [(topology.bolt_topic(bolt.id), task) for bolt in topology.bolts for task in range(bolt.num_tasks)]

    def _news(self) -> Sequence[Place]:
        topology = self._topology
        ackers = {root % topology.acker_tasks for root in self._roots}
        told = [
            (topology.completions_topic(spout.id), index)
            for spout in topology.spouts
            for index in range(spout.num_tasks)
        ]
        return [*((topology.acker_topic, task) for task in sorted(ackers)), *told]
