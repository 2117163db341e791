"""Where an exactly-once spout starts: behind what was committed with what it has emitted.

ZooKeeper's offset follows that position, with the oldest unfinished message; it counts where Kafka has no position yet: at the
first start, and when a topology that was processed at least once becomes exact.
"""

from collections.abc import MutableMapping
from contextlib import suppress

from msgspec.structs import replace

from kstorm.errors import FencedError, KstormError
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import UNKNOWN_BROKER, OffsetStore, Ownership, Partition, PositionReader

NO_POSITION = -1


class PositionedOffsets:
    """An `OffsetStore` whose partitions start at the committed position.

    `emitted` is the spout's own memory of where it is: what it has emitted and is not committed yet must not be emitted again
    by the same process, should it lose a lock and get it back.
    """

    def __init__(
        self,
        store: OffsetStore,
        reader: PositionReader,
        topology: TopologyRef,
        emitted: MutableMapping[Partition, int],
    ) -> None:
        self._store, self._reader, self._topology, self._emitted = store, reader, topology, emitted
        self._found: dict[Partition, int] = {}
        self._to_follow: set[Partition] = set()

    def acquire(self, partition: Partition) -> Ownership:
        """See `OffsetStore.acquire`; the partition is not held before its position is known."""
        ownership = self._store.acquire(partition)
        if ownership is not Ownership.HELD or partition in self._found:
            return ownership
        found = self._emitted.get(partition)
        if found is None:
            found = self._reader.position(partition)
            if found is None:
                return Ownership.WAITING
            self._to_follow.add(partition)
        self._found[partition] = found
        return ownership

    def load(self, partition: Partition) -> StoredOffset | None:
        """See `OffsetStore.load`. A position that is committed is stored as well: a former life had no time to, and whoever looks
        at what is stored would see a lag until the next message."""
        stored, found = self._store.load(partition), self._found.get(partition, NO_POSITION)
        if found == NO_POSITION or (stored is not None and stored.offset == found):
            return stored
        if stored is None:
            start = StoredOffset.of(self._topology, partition, found, UNKNOWN_BROKER)
        else:
            start = replace(stored, offset=found)
        if partition in self._to_follow:
            self._to_follow.discard(partition)
            with suppress(FencedError):  # the next `acquire` says so
                self._store.save(partition, start)
        return start

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        """See `OffsetStore.save`. From here on that is what `load` finds: a partition that starts elsewhere has it saved first."""
        if partition in self._found:
            self._found[partition] = NO_POSITION
        self._store.save(partition, stored)

    def stored_offset(self, partition: Partition) -> int | None:
        """See `OffsetStore.stored_offset`."""
        return self._store.stored_offset(partition)

    def release(self, partition: Partition) -> None:
        """See `OffsetStore.release`."""
        self._found.pop(partition, None)
        self._to_follow.discard(partition)
        self._store.release(partition)

    def flush(self, timeout: float) -> bool:
        """See `OffsetStore.flush`."""
        return self._store.flush(timeout)

    def problem(self) -> KstormError | None:
        """See `OffsetStore.problem`."""
        return self._store.problem() or self._reader.problem()

    def close(self) -> None:
        """See `OffsetStore.close`."""
        self._store.close()
