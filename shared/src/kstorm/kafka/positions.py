"""Where an exactly-once spout starts: behind what was committed with what it has emitted.

That position is Kafka's. ZooKeeper's offset follows it, with the oldest unfinished message, and says whose position counts
(`StoredOffset.group`). An offset that does not say so is newer than any position: it was stored by `kstorm offsets`, or while the
topology was processed at least once. Then the partition starts there. Before anything is emitted the position is moved there too,
and then ZooKeeper's offset says that from now on the position counts; a crash between any two of these begins again.
"""

from collections.abc import Mapping, MutableMapping
from contextlib import suppress

from msgspec.structs import replace

from kstorm.errors import ConfigError, FencedError, KstormError
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import UNKNOWN_BROKER, OffsetStore, Ownership, Partition, PositionReader

NO_POSITION = -1


class PositionedOffsets:
    """An `OffsetStore` whose partitions start at the committed position of a consumer `group`.

    `emitted` is the spout's own memory of where it is: what it has emitted and is not committed yet must not be emitted again
    by the same process, should it lose a lock and get it back. What is put there is committed soon; `committed` says what is.
    """

    def __init__(
        self,
        store: OffsetStore,
        reader: PositionReader,
        topology: TopologyRef,
        group: str,
        emitted: MutableMapping[Partition, int],
        committed: Mapping[Partition, int],
    ) -> None:
        self._store, self._reader, self._topology, self._group = store, reader, topology, group
        self._emitted, self._committed = emitted, committed
        self._looked_up: dict[Partition, int] = {}
        self._marking: set[Partition] = set()
        self._found: dict[Partition, int] = {}

    def acquire(self, partition: Partition) -> Ownership:
        """See `OffsetStore.acquire`; the partition is not held before its position is known, and is the one that counts."""
        ownership = self._store.acquire(partition)
        if ownership is not Ownership.HELD or partition in self._found:
            return ownership
        position = self._emitted.get(partition, self._looked_up.get(partition))
        if position is None:
            position = self._reader.position(partition)
        if position is None:
            return Ownership.WAITING
        self._looked_up[partition] = position
        try:
            stored = self._store.load(partition)
        except ConfigError:
            stored = None  # who loads it hears of that
        if stored is not None and stored.group != self._group:
            self._follow(partition, stored, position)
            return Ownership.WAITING
        self._found[partition] = position
        return ownership

    def _follow(self, partition: Partition, stored: StoredOffset, position: int) -> None:
        """Moves the position to an offset that is newer, and then says that it counts."""
        if position != NO_POSITION and self._committed.get(partition) != stored.offset:
            self._emitted[partition] = stored.offset
        elif partition not in self._marking:
            self._marking.add(partition)
            with suppress(FencedError):  # the next `acquire` says so
                self._store.save(partition, self._marked(stored))

    def _marked(self, stored: StoredOffset) -> StoredOffset:
        return replace(stored, group=self._group)

    def load(self, partition: Partition) -> StoredOffset | None:
        """See `OffsetStore.load`. `stored_offset` says what ZooKeeper has, which may be less than a position that is committed:
        a former life had no time to store it."""
        stored, found = self._store.load(partition), self._found.get(partition, NO_POSITION)
        if found == NO_POSITION:
            return None if stored is None else replace(stored, group="")
        if stored is None:
            return StoredOffset.of(self._topology, partition, found, UNKNOWN_BROKER)
        return replace(stored, offset=found, group="")

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        """See `OffsetStore.save`. From here on that is what `load` finds: a partition that starts elsewhere has it saved first."""
        if partition in self._found:
            self._found[partition] = NO_POSITION
        self._store.save(partition, self._marked(stored))

    def stored_offset(self, partition: Partition) -> int | None:
        """See `OffsetStore.stored_offset`."""
        return self._store.stored_offset(partition)

    def release(self, partition: Partition) -> None:
        """See `OffsetStore.release`."""
        self._found.pop(partition, None)
        self._looked_up.pop(partition, None)
        self._marking.discard(partition)
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
        self._reader.close()
