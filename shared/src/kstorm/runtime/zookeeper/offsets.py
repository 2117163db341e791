"""Keeps a `KafkaSpout`'s offsets and locks in ZooKeeper: the `OffsetStore` of `kstorm.kafka.ports`.

    <zk_root>/<id>/partition_<n>          Storm's JSON; written only by whoever holds the lock
    <zk_root>/<id>/locks/partition_<n>    ephemeral: gone with the session of the process that holds it

A spout that reads all topics that a regular expression matches has a node for each, `<zk_root>/<id>/<topic>`, and the
same two under it.

The rule: **a process whose lock was lost cannot move an offset.** Every write names the version that the node had when
this process last read or wrote it, and taking a lock writes the node once, so the one before is fenced from then on.

While ZooKeeper cannot be reached nobody's lock changes hands as far as can be known, so processing goes on and writes
wait. Once it says that the session has expired, each lock is taken anew; if the node is as this process left it, nobody
was there in between and work goes on, else the partition is dropped.
"""

import os
import socket
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from kstorm.errors import BrokerError, FencedError
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Ownership, Partition
from kstorm.runtime.zookeeper.lease import NOTHING, Lease, node_path
from kstorm.runtime.zookeeper.session import SESSION_SECS, ZooKeeperSession
from kstorm.runtime.zookeeper.tls import ZooKeeperTls
from kstorm.topology import TopologyContext

_CLOSE_SECS: Final = 2.0
_MEANWHILE: Final = "offsets wait to be stored, and no partition can be started; check that address"


class Session(Protocol):
    """What stores need of a `ZooKeeperSession`, in which the work of their leases is done."""

    def add(self, job: Lease) -> None:
        """Begins to try for a lock."""

    def save(self, lease: Lease, data: bytes) -> None:
        """Has `data` written next, in place of anything that waits."""

    def release(self, lease: Lease) -> None:
        """Has a lock given up."""

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Waits until work that was done makes the condition true."""

    def wake(self, *_: Any) -> None:
        """Looks at every lock that is waited for; called by ZooKeeper's watches too."""

    def problem(self, jobs: Iterable[Lease], meanwhile: str) -> str:
        """Why ZooKeeper does not do what it is asked for these, if so for 2 s or more; empty if it does."""


class ZooKeeperOffsetStores:
    """Opens offset stores; those with the same connect string share one session.

    `connect` is the process's own ZooKeeper. `session_timeout`, `auth` and `tls`: see `ZooKeeperSession`; what is created under a
    login is for that user alone. `session`: one that the process has already with these, which is used where its connect string is
    the same, and is its owner's to close. Nothing connects before a lock is asked for.
    """

    def __init__(
        self,
        connect: str,
        session_timeout: float = SESSION_SECS,
        auth: str = "",
        session: ZooKeeperSession | None = None,
        tls: ZooKeeperTls | None = None,
    ) -> None:
        self._connect = connect
        self._auth, self._tls = auth, tls
        self._timeout = session_timeout
        self._lent = session
        self._sessions: dict[str, ZooKeeperSession] = {}

    def open(self, config: SpoutConfig, context: TopologyContext) -> "ZooKeeperOffsets":
        """Opens the store of one spout task. Does not wait; raises `ConfigError` on a malformed connect string."""
        session = self._session(config.zk_connect or self._connect)
        owner = {
            "topology": context.topology.name,
            "component": context.component,
            "task": context.task_index,
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        return ZooKeeperOffsets(session, config, owner, self._auth)

    def _session(self, connect: str) -> ZooKeeperSession:
        if self._lent is not None and self._lent.connect == connect:
            return self._lent
        if connect not in self._sessions:
            self._sessions[connect] = ZooKeeperSession(
                connect, self._auth, self._timeout, self._tls
            )
        return self._sessions[connect]

    def close(self) -> None:
        """Ends the sessions that were opened here, and with them every lock. Waits at most a few seconds each."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()


class ZooKeeperOffsets:
    """An `OffsetStore`: the offsets and locks of one spout task."""

    def __init__(
        self, session: "Session", config: SpoutConfig, owner: dict[str, Any], auth: str = ""
    ) -> None:
        self._session = session
        self._config = config
        self._owner, self._auth = owner, auth
        self._leases: dict[Partition, Lease] = {}
        self._leaving: list[Lease] = []

    def acquire(self, partition: Partition) -> Ownership:
        """How the partition's lock stands; asks for it at the first call."""
        lease = self._leases.get(partition)
        if lease is None:
            root = self._config.zk_path_of(partition.topic)
            lease = Lease(root, partition, self._owner, self._session.wake, self._auth)
            self._leases[partition] = lease
            self._session.add(lease)
        return lease.ownership

    def load(self, partition: Partition) -> StoredOffset | None:
        """What was stored when the lock was taken."""
        lease = self._leases[partition]
        return (
            None
            if lease.data == NOTHING
            else StoredOffset.from_json(lease.data, partition, lease.path)
        )

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        """Stores an offset as soon as ZooKeeper can be reached."""
        lease = self._leases.get(partition)
        if lease is None or lease.ownership is Ownership.FENCED:
            node = node_path(self._config.zk_path_of(partition.topic), partition)
            raise FencedError(
                f"{node} belongs to another process now: offset {stored.offset} is not stored"
            )
        self._session.save(lease, stored.to_json())

    def stored_offset(self, partition: Partition) -> int | None:
        """The offset that ZooKeeper is known to hold."""
        stored = self.load(partition) if partition in self._leases else None
        return None if stored is None else stored.offset

    def release(self, partition: Partition) -> None:
        """Gives up the lock once everything is stored."""
        lease = self._leases.pop(partition, None)
        if lease is not None:
            self._leaving = [left for left in self._leaving if not left.gone]
            self._leaving.append(lease)
            self._session.release(lease)

    def flush(self, timeout: float) -> bool:
        """Waits until nothing is to be stored or released."""
        leases = (*self._leases.values(), *self._leaving)
        return self._session.wait(lambda: not any(lease.has_duties for lease in leases), timeout)

    def problem(self) -> BrokerError | None:
        """Why offsets cannot be stored at the moment."""
        why = self._session.problem((*self._leases.values(), *self._leaving), _MEANWHILE)
        return BrokerError(why) if why else None

    def close(self) -> None:
        """Gives up every lock."""
        for partition in list(self._leases):
            self.release(partition)
        self.flush(
            _CLOSE_SECS
        )  # what remains is done when ZooKeeper can be reached again, or goes with the session
