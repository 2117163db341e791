"""One reader for all tasks of a process that read the same source with the same settings.

Each reader has several threads and connections, and asks the brokers for messages on its own. A
process may run many spout tasks.

A task gets only the messages of its partitions. While it does not read a partition, the messages
wait here, and beyond a limit the reader pauses the partition.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.ports import Broker, Partition, SourceFault, SourceMessage, SourceReader

_MOST_MESSAGES: Final = 5000
_MOST_BYTES: Final = 4 * 1024 * 1024
_READ_AT_ONCE: Final = 500

_READ_BY: Final = (
    "hosts",
    "topic",
    "kafka_topic_wildcard_match",
    "id",
    "client_id",
    "fetch_size_bytes",
    "socket_timeout_ms",
    "fetch_max_wait",
    "buffer_size_bytes",
    "kafka_properties",
)
"""The fields of a `SpoutConfig` that a reader uses."""


class SharedSources:
    """Lends readers. Tasks whose settings are equal get the same one, which is open while it is
    used. `close` of a lent reader may be called on any thread, everything else on the event loop.
    """

    def __init__(self, open_source: Callable[[SpoutConfig], SourceReader]) -> None:
        self._open = open_source
        self._sources: list[_SharedSource] = []
        self._lock = threading.Lock()

    def lend(self, config: SpoutConfig) -> SourceReader:
        settings = tuple(getattr(config, name) for name in _READ_BY)
        with self._lock:
            shared = next((each for each in self._sources if each.settings == settings), None)
            if shared is None:
                shared = _SharedSource(self._open(config), settings)
                self._sources.append(shared)
            share = _LentSource(self, shared)
            shared.shares.append(share)
        return share

    def fetch(self) -> bool:
        """Fetch messages for all tasks without waiting. Return True if there were any."""
        sources = tuple(self._sources)  # another thread may close one
        return any(shared.is_read and shared.fetch(_READ_AT_ONCE) for shared in sources)

    def give_back(self, share: "_LentSource", shared: "_SharedSource") -> None:
        """Close the reader after its last user."""
        with self._lock:
            if share not in shared.shares:
                return
            shared.shares.remove(share)
            is_last = not shared.shares
            if is_last:
                self._sources.remove(shared)
        if is_last:
            shared.source.close()


class _ReadPartition(Struct, eq=False):
    """A partition that a task reads."""

    share: "_LentSource"
    messages: deque[SourceMessage] = field(default_factory=deque)
    """The messages that the reader has returned, but the task has not read."""
    size: int = 0
    is_paused: bool = False
    """True while its task has paused it."""
    is_full: bool = False
    """True while the reader has paused it, until its task has read half of the messages."""
    end: int | None = None
    """The end that the reader has reached behind the messages."""
    faults: list[SourceFault] = field(default_factory=list)
    """The errors that the reader met behind the messages."""

    @property
    def share_of_limit(self) -> float:
        return max(len(self.messages) / _MOST_MESSAGES, self.size / _MOST_BYTES)


class _SharedSource:
    def __init__(self, source: SourceReader, settings: tuple[Any, ...]) -> None:
        self.source, self.settings = source, settings
        self.shares: list[_LentSource] = []
        self.read: dict[Partition, _ReadPartition] = {}

    @property
    def is_read(self) -> bool:
        """True if a task wants messages of a partition."""
        return not all(reading.is_paused for reading in self.read.values())

    def fetch(self, most: int) -> int:
        """Hand the reader's next messages to the tasks, up to `most`. Return their number."""
        messages, by_place = self.source.read(most), dict[tuple[str, int], list[SourceMessage]]()
        for message in messages:
            by_place.setdefault((message.topic(), message.partition()), []).append(message)
        for place, found in by_place.items():
            partition = Partition(*place)
            reading = self.read.get(partition)
            if reading is None:
                continue
            reading.messages += found
            reading.size += sum(map(_size, found))
            if not reading.is_full and reading.share_of_limit > 1:
                reading.is_full = True
                self.source.pause(partition)
        for partition, end in self.source.ends_reached().items():
            if (reading := self.read.get(partition)) is not None:
                reading.end = end
        return len(messages)

    def collect_faults(self) -> None:
        """Hand the reader's errors to the tasks that they concern. That is all tasks, if they
        concern the whole topic or cluster."""
        for fault in self.source.faults():
            place = fault.partition
            if place is not None and (reading := self.read.get(place)) is not None:
                reading.faults.append(fault)
                continue
            shares = list(self.shares)
            for share in [each for each in shares if place in each.asked] or shares:
                share.told.append(fault)


class _LentSource:
    """A `SourceReader` of one task."""

    def __init__(self, owner: SharedSources, shared: _SharedSource) -> None:
        self._owner, self._shared, self._source = owner, shared, shared.source
        self._read: dict[Partition, _ReadPartition] = {}
        self.asked: set[Partition | None] = set()
        """Partitions whose offsets the task has looked up."""
        self.told: list[SourceFault] = []
        """Errors for this task that do not wait for messages."""

    def refresh(self, topic: str) -> None:
        self._source.refresh(topic)

    def partitions(self, topic: str) -> Mapping[Partition, Broker] | None:
        return self._source.partitions(topic)

    def offset_for(self, partition: Partition, time: int) -> int | None:
        self.asked.add(partition)
        return self._source.offset_for(partition, time)

    def assign(self, partition: Partition, offset: int) -> None:
        self._forget(partition)
        self._source.assign(partition, offset)
        self._read[partition] = self._shared.read[partition] = _ReadPartition(self)

    def unassign(self, partition: Partition) -> None:
        if self._forget(partition):
            self._source.unassign(partition)

    def _forget(self, partition: Partition) -> bool:
        """Forget what is known of a partition. Return False if no task, or another one, uses it."""
        is_asked = partition in self.asked
        self.asked.discard(partition)
        reading = self._read.pop(partition, None)
        if reading is not None:
            self.told += [fault for fault in reading.faults if fault.undecodable is None]
        owner = self._shared.read.get(partition)
        if owner is None:
            return is_asked
        if owner is not reading:
            return False
        del self._shared.read[partition]
        return True

    def pause(self, partition: Partition) -> None:
        self._read[partition].is_paused = True

    def resume(self, partition: Partition) -> None:
        if partition in self._read:
            self._read[partition].is_paused = False

    def read(self, max_messages: int) -> Sequence[SourceMessage]:
        found = self._take(max_messages)
        if found or not max_messages:
            return found
        if all(reading.is_paused for reading in self._read.values()):
            # A task that reads serves the callbacks of the reader too.
            if not self._shared.is_read:
                self._shared.fetch(max_messages)
            return found
        more = most = max(max_messages, _READ_AT_ONCE)
        while more == most and not found:
            more = self._shared.fetch(most)
            found = self._take(max_messages)
        return found

    def _take(self, most: int) -> list[SourceMessage]:
        """Take up to `most` messages of this task."""
        found: list[SourceMessage] = []
        for partition, reading in self._read.items():
            messages = reading.messages
            if reading.is_paused or not messages:
                continue
            taken = [messages.popleft() for _ in range(min(most - len(found), len(messages)))]
            reading.size -= sum(map(_size, taken))
            found += taken
            if reading.is_full and reading.share_of_limit < 0.5:
                reading.is_full = False
                self._source.resume(partition)
            if len(found) == most:
                # The next call begins with the other partitions.
                self._read[partition] = self._read.pop(partition)
                break
        return found

    def faults(self) -> Sequence[SourceFault]:
        self._shared.collect_faults()
        faults, self.told = self.told, []
        for reading in self._read.values():
            if not reading.messages and reading.faults:
                faults += reading.faults
                reading.faults = []
        return faults

    def ends_reached(self) -> Mapping[Partition, int]:
        ends = {
            partition: reading.end
            for partition, reading in self._read.items()
            if reading.end is not None and not reading.messages
        }
        for partition in ends:
            self._read[partition].end = None
        return ends

    def end_offset(self, partition: Partition) -> int | None:
        return self._source.end_offset(partition)

    def commit(self, partition: Partition, offset: int) -> None:
        self._source.commit(partition, offset)

    def close(self) -> None:
        """Close the connections after the last user. Waits at most a few seconds."""
        for partition in list(self._read):
            self.unassign(partition)
        self._owner.give_back(self, self._shared)


def _size(message: SourceMessage) -> int:
    value = message.value()
    return 0 if value is None else len(value)
