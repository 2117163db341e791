"""The last minute of the ackers' logs and the completions, read once for all unfinished
messages."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kstorm.core.origins import OriginRun
from kstorm.operations.traces.topic_log import PartitionId, TopicLog
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.origin_search import TreeStart, runs_in, starts_in
from kstorm.operations.trees.tree_reader import TopicRecord

_LENGTH_MS: Final = 60_000
_MOST_BYTES: Final = 256 * 1024 * 1024
"""Most bytes to keep in memory. If the minute has more, it is read again each time."""


class RecentRecords:
    """Always covers one minute, regardless of the message timeout.

    Older records are read only if a message needs them.
    """

    def __init__(self, log: TopicLog, acker_topic: str, places: Sequence[PartitionId]) -> None:
        self._log, self._acker_topic, self._places = log, acker_topic, places
        self.since = time.time() * 1000 - _LENGTH_MS
        """Start as Unix time in ms by this machine's clock. The end is that of the logs."""
        self._kept: list[TopicRecord] | None = None
        self._runs: dict[str, list[tuple[OriginRun, int, TopicRecord]]] = {}

    def start(self, places: Sequence[PartitionId]) -> Mapping[PartitionId, int]:
        """Return the first offset of each partition within this minute."""
        return self._log.offsets_at(places, self.since)

    def records(self) -> Iterator[TopicRecord]:
        """Yield all records, in order within each partition. Stops early when the log's budget is
        exhausted."""
        if self._kept is not None:
            yield from self._kept
            return
        found: list[TopicRecord] | None = []
        size = 0
        first = self.start(self._places)
        ranges = {place: (first[place], self._log.bounds(place).end) for place in self._places}
        for record in self._log.read(ranges):
            size += len(record.value or b"")
            if found is not None and size <= _MOST_BYTES:
                found.append(record)
            else:
                found = None
            yield record
        self._kept = found

    def begun(self, message: MessageId) -> Sequence[TreeStart]:
        """Return the trees of a message that were started within this minute."""
        if message.topic not in self._runs:
            self._runs[message.topic] = list(self._runs_of(message.topic))
        place, offset = (message.topic, message.partition), message.offset
        found = {
            (record.partition, record.offset): record
            for run, last, record in self._runs[message.topic]
            if run.first <= offset <= last and (run.topic, run.partition) == place
        }
        return [one for record in found.values() for one in starts_in(record, message)]

    def _runs_of(self, topic: str) -> Iterator[tuple[OriginRun, int, TopicRecord]]:
        """Yield each run of origins with its last offset and its record."""
        name = topic.encode()
        for record in self.records():
            # Most acker records come from bolts. They lack the source topic's name, so they need
            # not be decoded.
            if (
                record.topic == self._acker_topic
                and record.value is not None
                and name in record.value
            ):
                yield from ((run, run.last, record) for run in runs_in(record))
