"""Store a `KafkaSpout`'s offsets and locks in ZooKeeper: the `OffsetStore` of `kstorm.kafka.ports`.

    <zk_root>/<id>/partition_<n>          Storm's JSON; written only by the lock's owner
    <zk_root>/<id>/locks/partition_<n>    ephemeral: ends with the session of the lock's owner

A spout that reads all topics matching a regular expression has a node per topic,
`<zk_root>/<id>/<topic>`, with the same two nodes below it.

**A process that has lost its lock cannot move an offset.** Every write names the version of the
node that this process last read or wrote. Acquiring a lock also writes the node once, so the
previous owner is fenced from then on.

While ZooKeeper cannot be reached, processing continues and writes wait. If ZooKeeper then reports
that the session has expired, each lock is acquired again. If the node is unchanged, no other
process had the lock in the meantime, and processing continues. Otherwise the partition is dropped.
"""

import os
import socket
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from kstorm.errors import BrokerError, FencedError
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Ownership, Partition
from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls
from kstorm.runtime.zookeeper.lease import NOTHING, Lease, node_path
from kstorm.runtime.zookeeper.session import SESSION_SECS, ZooKeeperSession
from kstorm.topology import TopologyContext

_CLOSE_SECS: Final = 2.0
_MEANWHILE: Final = "offsets wait to be stored, and no partition can be started; check that address"


class OffsetSession(Protocol):
    """The part of `ZooKeeperSession` that stores use: it executes the work of their leases."""

    def add(self, job: Lease) -> None: ...

    def save(self, lease: Lease, data: bytes) -> None: ...

    def release(self, lease: Lease) -> None: ...

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool: ...

    def wake(self, *_: Any) -> None: ...

    def problem(self, jobs: Iterable[Lease], meanwhile: str) -> str: ...


class ZooKeeperOffsetStores:
    """Opens offset stores. Those with the same connect string share one session.

    `connect` is the process's own ZooKeeper. For `session_timeout`, `auth` and `tls` see
    `ZooKeeperSession`. With a login, created nodes belong to that user only. `session` is an
    existing one of the process with the same settings. It is used if its connect string is the
    same, and its owner closes it. No connection is made before the first lock is requested.

    `instance` is the process's name, which no other running process of the component has. With it,
    the locks of a former process of that name are taken at once.
    """

    def __init__(
        self,
        connect: str,
        session_timeout: float = SESSION_SECS,
        auth: str = "",
        session: ZooKeeperSession | None = None,
        tls: ZooKeeperTls | None = None,
        instance: str = "",
    ) -> None:
        self._connect, self._instance = connect, instance
        self._auth, self._tls = auth, tls
        self._timeout = session_timeout
        self._lent = session
        self._sessions: dict[str, ZooKeeperSession] = {}
        self._requested: set[str] = set()

    def open(self, config: SpoutConfig, context: TopologyContext) -> "ZooKeeperOffsets":
        """Open the store of one spout task without waiting. Raises `ConfigError` for a malformed
        connect string."""
        session = self._session(config.zk_connect or self._connect)
        owner = {
            "topology": context.topology.name,
            "component": context.component,
            "task": context.task_index,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            **({"instance": self._instance} if self._instance else {}),
        }
        return ZooKeeperOffsets(session, config, owner, self._auth, self._requested)

    def _session(self, connect: str) -> ZooKeeperSession:
        if self._lent is not None and self._lent.connect == connect:
            return self._lent
        if connect not in self._sessions:
            self._sessions[connect] = ZooKeeperSession(
                connect, self._auth, self._timeout, self._tls
            )
        return self._sessions[connect]

    def close(self) -> None:
        """Close the sessions opened by this object, and with them release every lock. Waits a few
        seconds at most for each."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()


class ZooKeeperOffsets:
    """An `OffsetStore`: the offsets and locks of one spout task.

    `requested` contains the nodes whose locks this process has requested. Its stores share it.
    """

    def __init__(
        self,
        session: "OffsetSession",
        config: SpoutConfig,
        owner: dict[str, Any],
        auth: str,
        requested: set[str],
    ) -> None:
        self._session = session
        self._config = config
        self._owner, self._auth, self._requested = owner, auth, requested
        self._leases: dict[Partition, Lease] = {}
        self._leaving: list[Lease] = []

    def acquire(self, partition: Partition) -> Ownership:
        """Return the state of the partition's lock. The first call requests the lock."""
        lease = self._leases.get(partition)
        if lease is None:
            root = self._config.zk_path_of(partition.topic)
            first = node_path(root, partition) not in self._requested
            lease = Lease(root, partition, self._owner, self._session.wake, self._auth, first)
            self._requested.add(lease.path)
            self._leases[partition] = lease
            self._session.add(lease)
        return lease.ownership

    def load(self, partition: Partition) -> StoredOffset | None:
        """Return the offset that was stored when the lock was acquired."""
        lease = self._leases[partition]
        return (
            None
            if lease.data == NOTHING
            else StoredOffset.from_json(lease.data, partition, lease.path)
        )

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        """Store an offset as soon as ZooKeeper can be reached."""
        lease = self._leases.get(partition)
        if lease is None or lease.ownership is Ownership.FENCED:
            node = node_path(self._config.zk_path_of(partition.topic), partition)
            raise FencedError(
                f"{node} belongs to another process now: offset {stored.offset} is not stored"
            )
        self._session.save(lease, stored.to_json())

    def stored_offset(self, partition: Partition) -> int | None:
        """Return the offset that ZooKeeper is known to have."""
        stored = self.load(partition) if partition in self._leases else None
        return None if stored is None else stored.offset

    def release(self, partition: Partition) -> None:
        """Release the lock once everything is stored."""
        lease = self._leases.pop(partition, None)
        if lease is not None:
            self._leaving = [left for left in self._leaving if not left.gone]
            self._leaving.append(lease)
            self._session.release(lease)

    def flush(self, timeout: float) -> bool:
        """Wait until nothing is left to store or release."""
        leases = (*self._leases.values(), *self._leaving)
        return self._session.wait(lambda: not any(lease.has_duties for lease in leases), timeout)

    def problem(self) -> BrokerError | None:
        """Return the reason why offsets cannot be stored at the moment."""
        why = self._session.problem((*self._leases.values(), *self._leaving), _MEANWHILE)
        return BrokerError(why) if why else None

    def close(self) -> None:
        """Release every lock."""
        for partition in list(self._leases):
            self.release(partition)
        # Remaining requests are executed when ZooKeeper can be reached again. Otherwise the locks
        # end with the session.
        self.flush(_CLOSE_SECS)
