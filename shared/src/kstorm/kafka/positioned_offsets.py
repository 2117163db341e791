"""Start offsets of an exactly-once spout: the position committed together with its output.

The position is in Kafka. ZooKeeper's offset follows it with the oldest unfinished message, and
names the group whose position takes precedence (`StoredOffset.group`). An offset without this group
is newer than any position: `kstorm offsets` stored it, or the topology stored it with the guarantee
at least once. The partition then starts at this offset, in two steps:

1. Before the spout emits anything, the position is moved to the offset.
2. Then ZooKeeper's offset is marked with the group, so that from then on the position takes
   precedence.

After a crash between the two steps, both are repeated.
"""

from collections.abc import Mapping, MutableMapping
from contextlib import suppress

from msgspec.structs import replace

from kstorm.errors import ConfigError, FencedError, KstormError
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import UNKNOWN_BROKER, OffsetStore, Ownership, Partition, PositionReader
from kstorm.topology.positioned import Position

NO_POSITION = -1


class PositionedOffsets:
    """An `OffsetStore` whose partitions start at the committed position of a consumer `group`.

    `emitted` is the spout's own record of its position. If the process loses a lock and gets it
    back, it must not repeat messages that it has emitted but not committed. Positions in `emitted`
    are committed soon, and then appear in `committed`.
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
        """Acquire the lock. Returns `WAITING` until the position is known and takes precedence."""
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
            stored = None  # `load` reports it to the caller
        if stored is not None and stored.group != self._group:
            self._follow(partition, stored, position)
            return Ownership.WAITING
        self._found[partition] = position
        return ownership

    def _follow(self, partition: Partition, stored: StoredOffset, position: int) -> None:
        """Move the position to the newer stored offset, and then mark that the position takes
        precedence."""
        if position != NO_POSITION and self._committed.get(partition) != stored.offset:
            self._emitted[partition] = stored.offset
        elif partition not in self._marking:
            self._marking.add(partition)
            with suppress(FencedError):  # the next `acquire` returns FENCED
                self._store.save(partition, self._marked(stored))

    def _marked(self, stored: StoredOffset) -> StoredOffset:
        return replace(stored, group=self._group)

    def load(self, partition: Partition) -> StoredOffset | None:
        """Return the position to start at.

        `stored_offset` returns ZooKeeper's offset. It may be lower than the committed position if
        an earlier run did not have time to store it.
        """
        stored, found = self._store.load(partition), self._found.get(partition, NO_POSITION)
        if found == NO_POSITION:
            return None if stored is None else replace(stored, group="")
        offset, reached = int(found), found.reached if isinstance(found, Position) else None
        if stored is None:
            return StoredOffset.of(
                self._topology, partition, offset, UNKNOWN_BROKER, reached=reached
            )
        reached = stored.reached if reached is None else reached
        return replace(stored, offset=offset, group="", reached=reached)

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        """Store an offset, which `load` returns from now on. A new start offset is saved before
        reading starts."""
        if partition in self._found:
            self._found[partition] = NO_POSITION
        self._store.save(partition, self._marked(stored))

    def stored_offset(self, partition: Partition) -> int | None:
        return self._store.stored_offset(partition)

    def release(self, partition: Partition) -> None:
        self._found.pop(partition, None)
        self._looked_up.pop(partition, None)
        self._marking.discard(partition)
        self._store.release(partition)

    def flush(self, timeout: float) -> bool:
        return self._store.flush(timeout)

    def problem(self) -> KstormError | None:
        return self._store.problem() or self._reader.problem()

    def close(self) -> None:
        self._store.close()
        self._reader.close()
