"""Find the trees of messages in the topics of a topology."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import inf
from typing import Final

from kstorm.errors import ConfigError
from kstorm.introspection.outline import Outline
from kstorm.operations.formatting import counted
from kstorm.operations.traces.recent_records import RecentRecords
from kstorm.operations.traces.topic_log import PartitionId, Ranges, TopicLog
from kstorm.operations.traces.tree_batches import SLACK_MS, TreeBatch, by_time, completions
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.origin_search import (
    MessageRange,
    TreeStart,
    narrow,
    range_in,
    runs_in,
    start_of,
    starts_in,
)
from kstorm.operations.trees.outcomes import timeouts_of
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.tree_reader import TopicRecord

_MINUTE_MS: Final = 60_000
_MORE: Final = 4
"""Each part that is read is this many times larger than the previous one."""
_NOT_HALVED: Final = 500
_MOST_PROBED: Final = 4_000
"""Most records that one probe reads."""


class Tracer:
    """Finds the trees of one topology."""

    def __init__(self, topology: Outline, log: TopicLog) -> None:
        if not topology.acker_tasks:
            raise ConfigError(
                f"the topology {topology.name!r} has no ackers, so the outcomes of its tuples are "
                "unknown"
            )
        self._topology, self._log = topology, log
        self._ackers = [(topology.acker_topic, task) for task in range(topology.acker_tasks)]
        self._patience = timeouts_of(topology)
        self.look_again()

    def look_again(self) -> None:
        """Forget everything read so far, because the topics have grown."""
        self._log.look_again()
        self._inits: Sequence[TopicRecord] | None = None
        places = [*self._ackers, *(place for place, _ in completions(self._topology))]
        self._recent = RecentRecords(self._log, self._topology.acker_topic, places)

    def attempts(self, message: MessageId) -> Sequence[Tree]:
        """Return the trees of a message, oldest first.

        One attempt may have several trees. There are none if the message was never emitted, or if
        its frames have been deleted since.
        """
        start, until, is_last = self._first_attempt(message)
        found = self._scan(start, until, message)
        if not is_last and any(tree.outcome != "acked" for tree in found):
            found += self._scan(until, self._ends(), message)
        return sorted(found, key=lambda tree: tree.begun)

    def _first_attempt(
        self, message: MessageId
    ) -> tuple[Mapping[PartitionId, int], Mapping[PartitionId, int], bool]:
        """Return the range of the ackers' logs in which the first attempt of a message starts. The
        flag is true if the range extends to their end."""
        before, after = self._halve(message)
        start = self._at(before.timestamp - SLACK_MS if before else 0)
        return start, self._at(after.timestamp + SLACK_MS) if after else self._ends(), after is None

    def between(self, message: MessageId, start: int, until: int) -> Sequence[Tree]:
        """Return the trees of a message that were started between two Unix times in ms, oldest
        first. They include the records of up to a minute later."""
        return self._scan(self._at(start), self._at(until + SLACK_MS), message, until + _MINUTE_MS)

    def newest_attempts(self, messages: Iterable[MessageId]) -> Mapping[MessageId, Sequence[Tree]]:
        """Like `attempts`, for several messages whose records are read together.

        If a message has attempts within the last minute, only these are returned, because retries
        may continue for hours.
        """
        begun: dict[MessageId, Sequence[TreeStart]] = {}
        # offsets from which retries may have started
        later: dict[MessageId, Mapping[PartitionId, int]] = {}
        for message in messages:
            self._log.budget.doing = f"looking for {message}"
            begun[message] = self._recent.begun(message)
            if not begun[message]:
                start, until, is_last = self._first_attempt(message)
                begun[message] = self._begun(start, until, message)
                if not is_last:
                    later[message] = until
        trees = self._trees_of(begun)
        retried = [
            message for message in later if any(tree.outcome != "acked" for tree in trees[message])
        ]
        recent = self._recent.start(self._ackers) if retried else {}
        retries = self._trees_of(
            {message: self._begun(later[message], recent, message) for message in retried}
        )
        both = {message: [*found, *retries.get(message, ())] for message, found in trees.items()}
        return {message: _in_order(found) for message, found in both.items()}

    def _trees_of(
        self, begun: Mapping[MessageId, Sequence[TreeStart]]
    ) -> Mapping[MessageId, Sequence[Tree]]:
        """Return the trees of each message, oldest first."""
        trees = self._trees(one for found in begun.values() for one in found)
        roots = {message: {one.root for one in found} for message, found in begun.items()}
        return {
            message: [tree for tree in trees if tree.root in of_it]
            for message, of_it in roots.items()
        }

    def tree(self, root: int, around: int, spout_task: int | None = None) -> Tree:
        """Return the tree of a root that was started at about `around`, a Unix time in ms."""
        self._log.budget.doing = f"reading the tree {root:016x}"
        return self._read({root: around}, {spout_task})[root]

    def _trees(self, begun: Iterable[TreeStart], latest: float = inf) -> list[Tree]:
        """Return each tree once, in order of start, as of the Unix time `latest` in ms."""
        found: list[Tree] = []
        for together in by_time(begun, lambda one: one.timestamp, self._recent.since + SLACK_MS):
            self._log.budget.doing = f"reading {counted(len(together), 'tree')}"
            times = {one.root: one.timestamp for one in reversed(together)}
            found += self._read(times, {one.task for one in together}, latest).values()
        return _in_order(found)

    def _read(
        self, begun: Mapping[int, int], spout_tasks: Set[int | None], latest: float = inf
    ) -> Mapping[int, Tree]:
        [one_task] = spout_tasks if len(spout_tasks) == 1 else [None]
        patience = max(wait for task, wait in self._patience.items() if one_task in (None, task))
        return TreeBatch(self._topology, self._log, begun, one_task).read(
            patience, latest, self._recent
        )

    def find(self, root: int, since: int) -> TreeStart | None:
        """Find the start of a root's tree, not before a Unix time in ms. Searches from the newest
        records back."""
        self._log.budget.doing = f"looking for the root {root:016x}"
        place = self._ackers[root % len(self._ackers)]
        packed = root.to_bytes(8, "little")
        for ranges in self._newest_first(place, since):
            for record in self._log.read(ranges):
                if (
                    record.value is not None
                    and packed in record.value
                    and (begun := start_of(record, root))
                ):
                    return begun
        return None

    def newest(self, topic: str, partition: int) -> int | None:
        """Return the highest recently emitted offset of a source partition, or None if unknown."""
        if self._inits is None:
            self._inits = self._last_inits()
        seen = (range_in(record, topic, partition) for record in self._inits)
        return max((one.highest for one in seen if one), default=None)

    def _last_inits(self) -> Sequence[TopicRecord]:
        """Return the last records of the ackers' logs that start trees."""
        ends = {place: self._log.bounds(place) for place in self._ackers}
        ranges = {
            place: (max(start, end - _MOST_PROBED), end) for place, (start, end) in ends.items()
        }
        return [record for record in self._log.read(ranges) if runs_in(record)]

    def _scan(
        self,
        start: Mapping[PartitionId, int],
        until: Mapping[PartitionId, int],
        message: MessageId,
        latest: float = inf,
    ) -> list[Tree]:
        """Return the trees of a message that start in these ranges of the ackers' logs, as of the
        Unix time `latest` in ms."""
        return self._trees(self._begun(start, until, message), latest)

    def _begun(
        self, start: Mapping[PartitionId, int], until: Mapping[PartitionId, int], message: MessageId
    ) -> list[TreeStart]:
        self._log.budget.doing = f"looking for {message}"
        ranges = {place: (start[place], until[place]) for place in self._ackers}
        return [one for record in self._log.read(ranges) for one in starts_in(record, message)]

    def _at(self, ms: float) -> dict[PartitionId, int]:
        return self._log.offsets_at(self._ackers, ms)

    def _ends(self) -> dict[PartitionId, int]:
        return {place: self._log.bounds(place).end for place in self._ackers}

    def _halve(self, message: MessageId) -> tuple[MessageRange | None, MessageRange | None]:
        self._log.budget.doing = f"looking for {message}"
        place = self._ackers[0]

        def probe(start: int, end: int) -> MessageRange | None:
            for record in self._log.read({place: (start, min(end, start + _MOST_PROBED))}):
                if seen := range_in(record, message.topic, message.partition):
                    return seen
            return None

        return narrow(*self._log.bounds(place), message.offset, probe, _NOT_HALVED)

    def _newest_first(self, place: PartitionId, since: int) -> Iterator[Ranges]:
        """Yield ranges of a partition from its end back, each longer than the one before."""
        end = self._log.bounds(place).end
        start = self._log.offsets_at([place], since)[place]
        size = _MOST_PROBED
        while end > start:
            first = max(start, end - size)
            yield {place: (first, end)}
            end, size = first, size * _MORE


def _in_order(trees: Iterable[Tree]) -> list[Tree]:
    """Sort trees by their start, each one once."""
    return sorted({tree.root: tree for tree in trees}.values(), key=lambda tree: tree.begun)
