"""Finds the trees of messages in the topics of a topology."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from kstorm.errors import ConfigError
from kstorm.inspect.facts import Message
from kstorm.inspect.gather import Gathered, Gatherer, Record
from kstorm.inspect.gatherers import is_whole
from kstorm.inspect.origins import Begun, Seen, begun_in, begun_with, narrow, runs_in, seen_in
from kstorm.inspect.outcomes import patience_of
from kstorm.inspect.outline import Outline
from kstorm.inspect.tree import Tree, build
from kstorm.runtime.tracing.log import Place, Ranges, TopicLog
from kstorm.runtime.tracing.recent import Recent

_SLACK_MS: Final = 1000
"""By which clocks of processes may differ, and records of one moment be apart."""
_FIRST_SLICE_MS: Final = 1000
_NEAR_MS: Final = 100
_AT_ONCE_MS: Final = 500
"""Most trees have all their tuples from so long before they begin, by the clocks of one machine, to so long after it."""
_MINUTE_MS: Final = 60_000
_MORE: Final = 4
"""By what each further slice of time is longer."""
_NOT_HALVED: Final = 500
_MOST_PROBED: Final = 4_000
"""Records that one look may take."""


class Tracer:
    """Of one topology."""

    def __init__(self, topology: Outline, log: TopicLog) -> None:
        if not topology.acker_tasks:
            raise ConfigError(
                f"the topology {topology.name!r} has no ackers, so nothing tells what became of its tuples"
            )
        self._topology, self._log = topology, log
        self._ackers = [(topology.acker_topic, task) for task in range(topology.acker_tasks)]
        self._patience = patience_of(topology)
        self.look_again()

    def look_again(self) -> None:
        """Forgets what was read: it has grown."""
        self._log.look_again()
        self._inits: Sequence[Record] | None = None
        places = [*self._ackers, *(place for place, _ in self._completions())]
        self._recent = Recent(self._log, self._topology.acker_topic, places)

    def attempts(self, message: Message) -> Sequence[Tree]:
        """The trees of a message, oldest first. There may be several of one attempt; there are none if it was not emitted, or so
        long ago that the frames are gone."""
        start, until, is_last = self._first_attempt(message)
        found = self._scan(start, until, message)
        if not is_last and any(tree.outcome != "acked" for tree in found):
            found += self._scan(until, self._ends(), message)
        return sorted(found, key=lambda tree: tree.begun)

    def _first_attempt(self, message: Message) -> tuple[Mapping[Place, int], Mapping[Place, int], bool]:
        """The part of the ackers' logs in which the first attempt at a message begins, and whether that is their end."""
        before, after = self._halve(message)
        start = self._at(before.timestamp - _SLACK_MS if before else 0)
        return start, self._at(after.timestamp + _SLACK_MS) if after else self._ends(), after is None

    def between(self, message: Message, start: int, until: int) -> Sequence[Tree]:
        """The trees of a message that began between two Unix times in ms, oldest first, as far as they had grown a minute later."""
        return self._scan(self._at(start), self._at(until + _SLACK_MS), message, until + _MINUTE_MS)

    def newest_attempts(self, message: Message) -> Sequence[Tree]:
        """As `attempts`, but of the retries of a message only the last ones: they may have come for hours."""
        self._log.budget.doing = f"looking for {message}"
        if begun := self._recent.begun(message):
            return self._trees(begun)
        start, until, is_last = self._first_attempt(message)
        found = self._scan(start, until, message)
        if not is_last and any(tree.outcome != "acked" for tree in found):
            found += self._scan(until, self._recent.start(self._ackers), message)
        return sorted(found, key=lambda tree: tree.begun)

    def _trees(self, begun: Iterable[Begun], latest: float = inf) -> list[Tree]:
        trees = (self.tree(one.root, one.timestamp, one.task, latest) for one in begun)
        return sorted(trees, key=lambda tree: tree.begun)

    def tree(self, root: int, around: int, spout_task: int | None = None, latest: float = inf) -> Tree:
        """The tree of a root that began at about that Unix time in ms, as far as it had grown at another one.

        What the acker heard says what there is to be found, so that is read first: until the tree has ended, or nobody waits for it
        any more. Of the tuples only so much is read as it takes."""
        self._log.budget.doing = f"reading the tree {root:016x}"
        gatherer = Gatherer(self._topology, root)
        self._read_news(gatherer, around, spout_task, latest)
        last = min(max(_heard(gatherer.found), default=around) + _SLACK_MS, latest)
        tuples = self._tuples()
        self._read(gatherer, tuples, around - _NEAR_MS, min(around + _AT_ONCE_MS, last))
        if not self._is_found(gatherer):
            self._read(gatherer, tuples, around - _SLACK_MS, around - _NEAR_MS)
        start, length = around + _AT_ONCE_MS, _FIRST_SLICE_MS
        while start < last and not self._is_found(gatherer) and not self._log.budget.exhausted:
            self._read(gatherer, tuples, start, min(start + length, last))
            start, length = start + length, length * _MORE
        return build(gatherer.found)

    def _read_news(self, gatherer: Gatherer, around: int, spout_task: int | None, latest: float) -> None:
        """What the acker heard of a tree, and what it told the spout."""
        places = self._news(gatherer.found.root, spout_task)
        patience = max(wait for task, wait in self._patience.items() if spout_task in (None, task))
        start, length = around - _SLACK_MS, _FIRST_SLICE_MS + _SLACK_MS
        end = min(around + patience, latest)
        while start < end and not self._log.budget.exhausted:
            self._read(gatherer, places, start, min(start + length, end))
            start, length = start + length, length * _MORE
            end = min(max(_heard(gatherer.found, "reset"), default=around) + patience, latest)
            if build(gatherer.found).ended is not None:
                return
            if start >= self._recent.since and latest == inf:
                for record in self._recent.records():
                    gatherer.take(record)
                return

    def _read(self, gatherer: Gatherer, places: Sequence[Place], start: float, until: float) -> None:
        if start < until:
            first, behind = self._log.offsets_at(places, start), self._log.offsets_at(places, until)
            for record in self._log.read({place: (first[place], behind[place]) for place in places}):
                gatherer.take(record)

    @staticmethod
    def _is_found(gatherer: Gatherer) -> bool:
        return is_whole(build(gatherer.found))

    def find(self, root: int, since: int) -> Begun | None:
        """Where the tree of a root began, not before a Unix time in ms; looked for from the newest on."""
        self._log.budget.doing = f"looking for the root {root:016x}"
        place = self._ackers[root % len(self._ackers)]
        packed = root.to_bytes(8, "little")
        for ranges in self._newest_first(place, since):
            for record in self._log.read(ranges):
                if record.value is not None and packed in record.value and (begun := begun_with(record, root)):
                    return begun
        return None

    def newest(self, topic: str, partition: int) -> int | None:
        """The highest offset of a source partition that was lately emitted, as far as that is seen."""
        if self._inits is None:
            self._inits = self._last_inits()
        seen = (seen_in(record, topic, partition) for record in self._inits)
        return max((one.highest for one in seen if one), default=None)

    def _last_inits(self) -> Sequence[Record]:
        """The last records of the ackers' logs in which trees begin."""
        ends = {place: self._log.bounds(place) for place in self._ackers}
        ranges = {place: (max(start, end - _MOST_PROBED), end) for place, (start, end) in ends.items()}
        return [record for record in self._log.read(ranges) if runs_in(record)]

    def _tuples(self) -> list[Place]:
        topology = self._topology
        return [(topology.bolt_topic(bolt.id), task) for bolt in topology.bolts for task in range(bolt.num_tasks)]

    def _news(self, root: int, spout_task: int | None) -> list[Place]:
        told = [place for place, task in self._completions() if spout_task in (None, task)]
        return [self._ackers[root % len(self._ackers)], *told]

    def _completions(self) -> Iterator[tuple[Place, int]]:
        topology = self._topology
        for spout in topology.spouts:
            for index, task in enumerate(topology.task_ids(spout.id)):
                yield (topology.completions_topic(spout.id), index), task

    def _scan(
        self,
        start: Mapping[Place, int],
        until: Mapping[Place, int],
        message: Message,
        latest: float = inf,
    ) -> list[Tree]:
        """The trees of a message that begin in these parts of the ackers' logs, up to a Unix time in ms."""
        self._log.budget.doing = f"looking for {message}"
        ranges = {place: (start[place], until[place]) for place in self._ackers}
        begun = [one for record in self._log.read(ranges) for one in begun_in(record, message)]
        return self._trees(begun, latest)

    def _at(self, ms: float) -> dict[Place, int]:
        return self._log.offsets_at(self._ackers, ms)

    def _ends(self) -> dict[Place, int]:
        return {place: self._log.bounds(place).end for place in self._ackers}

    def _halve(self, message: Message) -> tuple[Seen | None, Seen | None]:
        self._log.budget.doing = f"looking for {message}"
        place = self._ackers[0]

        def probe(start: int, end: int) -> Seen | None:
            for record in self._log.read({place: (start, min(end, start + _MOST_PROBED))}):
                if seen := seen_in(record, message.topic, message.partition):
                    return seen
            return None

        return narrow(*self._log.bounds(place), message.offset, probe, _NOT_HALVED)

    def _newest_first(self, place: Place, since: int) -> Iterator[Ranges]:
        """Parts of a partition, each longer than the one before and older."""
        end = self._log.bounds(place).end
        start = self._log.offsets_at([place], since)[place]
        size = _MOST_PROBED
        while end > start:
            first = max(start, end - size)
            yield {place: (first, end)}
            end, size = first, size * _MORE


def _heard(found: Gathered, kind: str = "") -> Iterator[int]:
    """When there was news of a tree, in ms: of one kind, or of any."""
    heard = [(one.kind, one.place) for one in found.news] + [(one.kind, one.place) for one in found.endings]
    return (place.timestamp for what, place in heard if kind in ("", what))
