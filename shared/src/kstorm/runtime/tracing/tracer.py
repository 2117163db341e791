"""Finds the trees of messages in the topics of a topology."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kstorm.errors import ConfigError
from kstorm.inspect.facts import Message
from kstorm.inspect.gather import Gatherer
from kstorm.inspect.origins import Begun, Seen, begun_in, begun_with, narrow, seen_in
from kstorm.inspect.outline import Outline
from kstorm.inspect.tree import Tree, build
from kstorm.runtime.tracing.log import Place, Ranges, TopicLog

_SLACK_MS: Final = 1000
"""By which clocks of processes may differ, and records of one moment be apart."""
_FIRST_SLICE_MS: Final = 1000
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

    def attempts(self, message: Message) -> Sequence[Tree]:
        """The trees of a message, oldest first. There may be several of one attempt; there are none if it was not emitted, or so
        long ago that the frames are gone."""
        before, after = self._halve(message)
        start = self._at(before.timestamp - _SLACK_MS if before else 0)
        until = self._at(after.timestamp + _SLACK_MS) if after else self._ends()
        found = self._scan(start, until, message)
        if after is not None and any(tree.outcome != "acked" for tree in found):
            found += self._scan(until, self._ends(), message)
        return sorted(found, key=lambda tree: tree.begun)

    def between(self, message: Message, start: int, until: int) -> Sequence[Tree]:
        """The trees of a message that began between two Unix times in ms, oldest first, as far as they had grown a minute later."""
        found = self._scan(self._at(start), self._at(until + _SLACK_MS), message, until + _MINUTE_MS)
        return sorted(found, key=lambda tree: tree.begun)

    def tree(self, root: int, around: int, spout_task: int | None = None, latest: float = float("inf")) -> Tree:
        """The tree of a root that began at about that Unix time in ms, as far as it had grown at another one."""
        self._log.budget.doing = f"reading the tree {root:016x}"
        gatherer = Gatherer(self._topology, root)
        start, length = around - _SLACK_MS, _FIRST_SLICE_MS + _SLACK_MS
        places = self._places(root, spout_task)
        at = self._log.offsets_at(places, start)
        while True:
            start = int(min(start + length, latest))
            length *= _MORE
            until = self._log.offsets_at(places, start)
            for record in self._log.read({place: (at[place], until[place]) for place in places}):
                gatherer.take(record)
            tree = build(gatherer.found)
            over = start >= latest or all(until[place] == self._log.bounds(place).end for place in places)
            if over or tree.ended is not None or self._log.budget.exhausted:
                return tree
            at = until

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
        highest = None
        ends = {place: self._log.bounds(place) for place in self._ackers}
        ranges = {place: (max(start, end - _MOST_PROBED), end) for place, (start, end) in ends.items()}
        for record in self._log.read(ranges):
            if seen := seen_in(record, topic, partition):
                highest = max(seen.highest, -1 if highest is None else highest)
        return highest

    def _places(self, root: int, spout_task: int | None) -> list[Place]:
        topology = self._topology
        places = [(topology.bolt_topic(bolt.id), task) for bolt in topology.bolts for task in range(bolt.num_tasks)]
        places.append(self._ackers[root % len(self._ackers)])
        for spout in topology.spouts:
            for index, task in enumerate(topology.task_ids(spout.id)):
                if spout_task is None or spout_task == task:
                    places.append((topology.completions_topic(spout.id), index))
        return places

    def _scan(
        self,
        start: Mapping[Place, int],
        until: Mapping[Place, int],
        message: Message,
        latest: float = float("inf"),
    ) -> list[Tree]:
        """The trees of a message that begin in these parts of the ackers' logs, up to a Unix time in ms."""
        self._log.budget.doing = f"looking for {message}"
        ranges = {place: (start[place], until[place]) for place in self._ackers}
        begun = [one for record in self._log.read(ranges) for one in begun_in(record, message)]
        return [self.tree(one.root, one.timestamp, one.task, latest) for one in begun]

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
