"""Stores offsets like a ZooKeeper: the `OffsetStore` of one spout task, and the nodes and locks
that all tasks share."""

from dataclasses import dataclass, field

from kstorm.errors import BrokerError, FencedError, KstormError
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Ownership, Partition
from kstorm.testing.kafka.broker import PendingRequests
from kstorm.testing.processes import PROCESS
from kstorm.topology import TopologyContext


@dataclass(eq=False)
class _Lease:
    """A lock that a store holds or waits for, and its last known contents of the node."""

    path: str
    store: "FakeOffsets"
    ownership: Ownership = Ownership.WAITING
    data: bytes | None = None
    queued: bytes | None = None


@dataclass
class FakeNodes:
    """State shared by all stores. It outlives them."""

    data: dict[str, bytes] = field(default_factory=dict)
    """Stored offsets by path."""
    holders: dict[str, _Lease] = field(default_factory=dict)
    """Lock holders by path."""
    waiting: list[_Lease] = field(default_factory=list)
    """Leases that wait for a lock, in order."""
    sessions: dict[tuple[str, str, int], "FakeOffsets"] = field(default_factory=dict)
    """The last store opened for each spout task."""

    def give(self, path: str) -> None:
        """Grant a free lock to the first store that waits for it."""
        lease = next((lease for lease in self.waiting if lease.path == path), None)
        if lease is not None and path not in self.holders:
            self.waiting.remove(lease)
            self.holders[path] = lease
            lease.data, lease.ownership = self.data.get(path), Ownership.HELD

    def let_go(self, lease: _Lease) -> None:
        """Release a lock, or cancel the wait for it."""
        if lease in self.waiting:
            self.waiting.remove(lease)
        if self.holders.get(lease.path) is lease:
            del self.holders[lease.path]
            self.give(lease.path)


class FakeOffsets:
    """Grants, stores and releases nothing in the call that asks for it.

    Opening a store for a task ends the session of the task's previous store. Writes of that session
    in transit are lost, and so are its locks, as after a kill. If its process is still alive, it is
    fenced. A zombie that opens its store late does the same to its heir. The zombie's own session
    ends once it is dead and another store waits for one of its locks.
    """

    def __init__(
        self,
        nodes: FakeNodes,
        answers: PendingRequests,
        config: SpoutConfig,
        context: TopologyContext,
    ) -> None:
        self._nodes, self._answers, self._config = nodes, answers, config
        self._leases: dict[Partition, _Lease] = {}
        self._process = context.resources.get(PROCESS)
        who = context.topology.name, context.component, context.task_index
        before = nodes.sessions.get(who)
        nodes.sessions[who] = self
        if before is not None:
            before.expire()

    def acquire(self, partition: Partition) -> Ownership:
        """Return WAITING at first, and HELD once granted. A store that still waits when its session
        ends must ask again."""
        lease = self._leases.get(partition)
        if lease is None:
            lease = self._leases[partition] = _Lease(path_of(self._config, partition), self)
        if lease.ownership is Ownership.WAITING and lease not in self._nodes.waiting:
            self._nodes.waiting.append(lease)
            self._answers.later(self, lambda: self._nodes.give(lease.path))
        holder = self._nodes.holders.get(lease.path)
        if holder is not None and holder.store.is_dead and lease.ownership is Ownership.WAITING:
            self._answers.later(self, holder.store.expire)
        return lease.ownership

    def load(self, partition: Partition) -> StoredOffset | None:
        """Return the offset stored when the lock was taken, or since then by this store."""
        lease = self._leases[partition]
        return (
            None
            if lease.data is None
            else StoredOffset.from_json(lease.data, partition, lease.path)
        )

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        """Store it later. Of several queued offsets only the last is stored."""
        lease = self._leases.get(partition)
        if lease is None or lease.ownership is Ownership.FENCED:
            raise FencedError(f"{path_of(self._config, partition)} belongs to another process now")
        if lease.queued is None:
            self._answers.later(self, lambda: self._store(lease))
        lease.queued = stored.to_json()

    def stored_offset(self, partition: Partition) -> int | None:
        stored = self.load(partition) if partition in self._leases else None
        return None if stored is None else stored.offset

    def release(self, partition: Partition) -> None:
        """Release the lock later, after the queued offset is stored."""
        lease = self._leases.pop(partition, None)
        if lease is not None:
            self._answers.later(self, lambda: self._let_go(lease))

    def flush(self, timeout: float) -> bool:
        """Carry out everything queued. If the servers are away, return False without waiting for
        `timeout`."""
        self._answers.all_of(self)
        return not self._answers.away

    def problem(self) -> KstormError | None:
        return BrokerError("the fake ZooKeeper cannot be reached") if self._answers.away else None

    def close(self) -> None:
        for partition in list(self._leases):
            self.release(partition)
        self.flush(0)

    @property
    def is_dead(self) -> bool:
        """True if its process is dead."""
        return self._process is not None and self._process.dead

    def expire(self) -> None:
        """End the session. Its owner does not know it yet."""
        self._answers.forget(self)
        own = [
            lease
            for lease in (*self._nodes.holders.values(), *self._nodes.waiting)
            if lease.store is self
        ]
        for lease in own:  # including those it was about to release
            self._nodes.let_go(lease)
            lease.queued = None
            if lease.ownership is Ownership.HELD:
                lease.ownership = Ownership.FENCED

    def _store(self, lease: _Lease) -> None:
        if lease.queued is not None and self._nodes.holders.get(lease.path) is lease:
            lease.data = self._nodes.data[lease.path] = lease.queued
            lease.queued = None

    def _let_go(self, lease: _Lease) -> None:
        self._store(lease)
        self._nodes.let_go(lease)


def path_of(config: SpoutConfig, partition: Partition) -> str:
    """Return the node of a partition's offset."""
    return f"{config.zk_path_of(partition.topic)}/partition_{partition.partition}"
