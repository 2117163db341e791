"""Follow the outcomes of all trees of a topology. Each round reads the ackers' logs up to a time,
and then the completions.

A feed can continue where an earlier one stopped. A consumer group without members stores the
offsets of the completions, and the time up to which they were read. To find the trees that were
open at that time, the feed reads the records shortly before it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from kstorm.errors import BrokerError
from kstorm.introspection.outline import Outline
from kstorm.operations.traces.topic_log import PartitionId, ReadBudget, TopicLog
from kstorm.operations.trees.outcomes import OutcomeTracker, TreeOutcome, timeouts_of
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.offset_reader import OffsetReader

_ROUND_MS: Final = 10_000
"""Longest time range of one round."""
_LOOK_BACK_MS: Final = 15 * 60_000
"""Longest time before the start that the feed reads to find open trees."""
_LOOK_BACK_FOREVER_MS: Final = 60_000
"""The same time for topologies whose trees do not time out."""
_UNBOUNDED: Final = 1 << 62


class FeedPosition:
    """Stores the progress of a feed in a consumer group."""

    def __init__(self, settings: Settings, group: str) -> None:
        self._settings, self._admin, self._group = settings, Admin(settings), group

    def load(self) -> int | None:
        """Return the Unix time in ms up to which everything was read, or None if nothing is stored.

        Raises `BrokerError` if Kafka does not respond.
        """
        found = OffsetReader(self._settings).all_stored(self._group)
        notes = [place.metadata or "" for place in found]
        return min(map(int, filter(str.isdecimal, notes)), default=None)

    def store(self, positions: Mapping[PartitionId, int], until: int) -> None:
        """Store offsets and time. Raises `BrokerError` if Kafka rejects them."""
        places = [
            TopicPartition(*place, offset, metadata=str(until))
            for place, offset in positions.items()
        ]
        try:
            self._admin.store_offsets(self._group, places)
        except KafkaException as error:
            raise BrokerError(
                f"Kafka at {self._settings.bootstrap_servers} did not store the offsets of the group "
                f"{self._group!r}: {error.args[0].str()}"
            ) from None


class OutcomeFeed:
    """Starts at a Unix time in ms. Each method raises `BrokerError` if Kafka does not respond or
    denies access."""

    def __init__(
        self, topology: Outline, log: TopicLog, outcomes: OutcomeTracker, begin: int
    ) -> None:
        self._log, self._outcomes = log, outcomes
        self._ackers = [(topology.acker_topic, task) for task in range(topology.acker_tasks)]
        self._completions = [
            (topology.completions_topic(spout.id), index)
            for spout in topology.spouts
            for index in range(spout.num_tasks)
        ]
        self.until = begin
        """Unix time in ms up to which all records were read."""
        patience = max(timeouts_of(topology).values())
        self._look_back = (
            int(min(patience, _LOOK_BACK_MS)) if patience < _UNBOUNDED else _LOOK_BACK_FOREVER_MS
        )
        self._positions: dict[PartitionId, int] = {}
        self._looked = 0

    @property
    def positions(self) -> Mapping[PartitionId, int]:
        """The offsets up to which the completions were read."""
        return {place: self._positions[place] for place in self._completions}

    def advance(self, until: int) -> Sequence[TreeOutcome]:
        """Read up to `until`, but at most ten seconds further. Return the trees that failed or were
        slow."""
        until = min(until, self.until + _ROUND_MS)
        self._look(until)
        if not self._positions:
            self._begin()
        self._read(until)
        return self._outcomes.take(until)

    def _begin(self) -> None:
        """Read the trees that were open at the start. Outcomes before the start are dropped."""
        back = self.until - self._look_back
        self._positions = self._log.offsets_at([*self._ackers, *self._completions], back)
        self._read(self.until)
        self._outcomes.take(self.until)

    def _look(self, until: int) -> None:
        """Refresh the ends of partitions, unless the known ends are from a time after `until`."""
        if until > self._looked:
            self._looked = int(time.time() * 1000)
            self._log.look_again()
        self._log.budget = ReadBudget(_UNBOUNDED, float("inf"))

    def _read(self, until: int) -> None:
        ends = self._log.offsets_at([*self._ackers, *self._completions], until)
        for places, take in (
            (self._ackers, self._outcomes.begin),
            (self._completions, self._outcomes.end),
        ):
            for record in self._log.read(self._ranges(places, ends)):
                self._positions[record.topic, record.partition] = record.offset + 1
                take(record)
        self.until = until

    def _ranges(
        self, places: Sequence[PartitionId], ends: Mapping[PartitionId, int]
    ) -> Mapping[PartitionId, tuple[int, int]]:
        return dict(self._ranged(places, ends))

    def _ranged(
        self, places: Sequence[PartitionId], ends: Mapping[PartitionId, int]
    ) -> Iterator[tuple[PartitionId, tuple[int, int]]]:
        for place in places:
            # Records may have been deleted in the meantime.
            start = max(self._positions[place], self._log.bounds(place).start)
            yield place, (start, ends[place])
