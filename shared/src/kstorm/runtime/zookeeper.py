"""Keeps a `KafkaSpout`'s offsets and locks in ZooKeeper: the `OffsetStore` of `kstorm.kafka.ports`.

    <zk_root>/<id>/partition_<n>          the seed's JSON; written only by whoever holds the lock
    <zk_root>/<id>/locks/partition_<n>    ephemeral: gone with the session of the process that holds it

A spout that reads all topics that a regular expression matches has a node for each, `<zk_root>/<id>/<topic>`, and the
same two under it.

The rule: **a process whose lock was lost cannot move an offset.** Every write names the version that the node had when
this process last read or wrote it, and taking a lock writes the node once, so the one before is fenced from then on.

While ZooKeeper cannot be reached nobody's lock changes hands as far as can be known, so processing goes on and writes
wait. Once it says that the session has expired, each lock is taken anew; if the node is as this process left it, nobody
was there in between and work goes on, else the partition is dropped.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from kazoo.client import KazooState
from kazoo.exceptions import KazooException, NoAuthError

from kstorm.errors import BrokerError, FencedError
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Ownership, Partition
from kstorm.runtime.zookeeper_client import NOT_NOW, is_ended, make_client, not_allowed, not_let_in
from kstorm.runtime.zookeeper_lease import NOTHING, Lease, node_path
from kstorm.runtime.zookeeper_leases import Leases
from kstorm.topology import TopologyContext

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECS: Final = 1.0
_AFTER_FAILURE_SECS: Final = 0.2
_UNREACHABLE_SECS: Final = 2.0
_CLOSE_SECS: Final = 2.0
_NOT_LET_IN_SECS: Final = 1.0


class ZooKeeperOffsetStores:
    """Opens offset stores; those with the same connect string share one session.

    `connect` is the process's own ZooKeeper. `session_timeout` in seconds is how long a dead process keeps its locks;
    ZooKeeper may grant another, between 2 and 20 of its ticks. `auth` is a login, see `zookeeper_client`; what is created
    under one is for that user alone. Nothing connects before the first `open`.
    """

    def __init__(self, connect: str, session_timeout: float = 6.0, auth: str = "") -> None:
        self._connect = connect
        self._auth = auth
        self._timeout = session_timeout
        self._sessions: dict[str, _Session] = {}

    def open(self, config: SpoutConfig, context: TopologyContext) -> "ZooKeeperOffsets":
        """Opens the store of one spout task. Does not wait; raises `ConfigError` on a malformed connect string."""
        connect = config.zk_connect or self._connect
        if connect not in self._sessions:
            self._sessions[connect] = _Session(connect, self._timeout, self._auth)
        owner = {
            "topology": context.topology.name,
            "component": context.component,
            "task": context.task_index,
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        return ZooKeeperOffsets(self._sessions[connect], config, owner)

    def close(self) -> None:
        """Ends the sessions, and with them every lock. Waits at most a few seconds."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()


class ZooKeeperOffsets:
    """An `OffsetStore`: the offsets and locks of one spout task."""

    def __init__(self, session: "Session", config: SpoutConfig, owner: dict[str, Any]) -> None:
        self._session = session
        self._config = config
        self._owner = owner
        self._leases: dict[Partition, Lease] = {}
        self._leaving: list[Lease] = []

    def acquire(self, partition: Partition) -> Ownership:
        """How the partition's lock stands; asks for it at the first call."""
        lease = self._leases.get(partition)
        if lease is None:
            root = self._config.zk_path_of(partition.topic)
            lease = self._leases[partition] = Lease(root, partition, self._owner, self._session.wake)
            self._session.add(lease)
        return lease.ownership

    def load(self, partition: Partition) -> StoredOffset | None:
        """What was stored when the lock was taken."""
        lease = self._leases[partition]
        return None if lease.data == NOTHING else StoredOffset.from_json(lease.data, partition, lease.path)

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        """Stores an offset as soon as ZooKeeper can be reached."""
        lease = self._leases.get(partition)
        if lease is None or lease.ownership is Ownership.FENCED:
            node = node_path(self._config.zk_path_of(partition.topic), partition)
            raise FencedError(f"{node} belongs to another process now: offset {stored.offset} is not stored")
        self._session.save(lease, stored.to_json())

    def stored_offset(self, partition: Partition) -> int | None:
        """The offset that ZooKeeper is known to hold."""
        stored = self.load(partition) if partition in self._leases else None
        return None if stored is None else stored.offset

    def release(self, partition: Partition) -> None:
        """Gives up the lock once everything is stored."""
        lease = self._leases.pop(partition, None)
        if lease is not None:
            self._leaving = [leaving for leaving in self._leaving if not leaving.gone]
            self._leaving.append(lease)
            self._session.release(lease)

    def flush(self, timeout: float) -> bool:
        """Waits until nothing is to be stored or released."""
        leases = (*self._leases.values(), *self._leaving)
        return self._session.wait(lambda: not any(lease.has_duties for lease in leases), timeout)

    def problem(self) -> BrokerError | None:
        """Why offsets cannot be stored at the moment."""
        return self._session.problem()

    def close(self) -> None:
        """Gives up every lock."""
        for partition in list(self._leases):
            self.release(partition)
        self.flush(_CLOSE_SECS)  # what remains is done when ZooKeeper can be reached again, or goes with the session


class Session(Protocol):
    """Has the work of leases done, in one ZooKeeper session after the other."""

    def add(self, lease: Lease) -> None:
        """Begins to try for a lock."""

    def save(self, lease: Lease, data: bytes) -> None:
        """Has `data` written next, in place of anything that waits."""

    def release(self, lease: Lease) -> None:
        """Has a lock given up."""

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Waits until work that was done makes the condition true."""

    def wake(self, *_: Any) -> None:
        """Looks at every lock that is waited for; called by ZooKeeper's watches too."""

    def problem(self) -> BrokerError | None:
        """Why ZooKeeper does not do what it is asked, if so for 2 s or more."""


class _Session:
    """One ZooKeeper session, and the thread that does the leases' work in it."""

    def __init__(self, connect: str, timeout: float, auth: str) -> None:
        self._connect = connect
        self._auth = auth
        self._client = make_client(connect, timeout, auth, connection_retry={"max_tries": -1, "max_delay": 2.0})
        self._client.add_listener(self._heard)
        self._changed = threading.Condition()
        self._leases = Leases()
        self._connected = False
        self._since = time.monotonic()
        self._refusal: str | None = None
        self._ended = False  # whether kazoo gave up, as it does where a login is refused
        self._ending = False
        self._thread = threading.Thread(target=self._work, name="zookeeper-offsets", daemon=True)
        self._thread.start()

    def add(self, lease: Lease) -> None:
        """Begins to try for a lock."""
        with self._changed:
            self._leases.add(lease)
            self._changed.notify_all()

    def save(self, lease: Lease, data: bytes) -> None:
        """Has `data` written next, in place of anything that waits."""
        with self._changed:
            lease.queued = data
            self._changed.notify_all()

    def release(self, lease: Lease) -> None:
        """Has a lock given up."""
        with self._changed:
            lease.leaving = True
            self._changed.notify_all()

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Waits until work that was done makes the condition true."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def wake(self, *_: Any) -> None:
        """Looks at every lock that is waited for; called by ZooKeeper's watches too."""
        with self._changed:
            self._leases.look_again()
            self._changed.notify_all()

    def problem(self) -> BrokerError | None:
        """Why ZooKeeper does not do what it is asked, if so for 2 s or more."""
        if not self._connected and time.monotonic() - self._since > _UNREACHABLE_SECS:
            return BrokerError(
                f"ZooKeeper at {self._connect} cannot be reached: offsets wait to be stored, and no partition can be "
                "started; check that address"
            )
        if self._refusal is not None:
            return BrokerError(f"ZooKeeper at {self._connect} refuses: {self._refusal}")
        return None

    def close(self) -> None:
        """Ends the session."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._client.stop()
        self._client.close()
        self._thread.join(_CLOSE_SECS)

    def _heard(self, state: str) -> None:
        """On kazoo's own thread: must not wait for ZooKeeper."""
        with self._changed:
            connected = state == KazooState.CONNECTED
            if connected != self._connected:
                self._connected, self._since = connected, time.monotonic()
            if state == KazooState.LOST:
                self._leases.lost()
                if is_ended(self._client):
                    self._refusal, self._ended = not_let_in(self._auth), True
            self._changed.notify_all()

    def _work(self) -> None:
        self._client.start_async()
        while True:
            with self._changed:
                if not self._changed.wait_for(self._has_work, _LOOK_AGAIN_SECS):
                    self._leases.look_again()  # should a watch have got lost
                if self._ending:
                    return
                ended, self._ended = self._ended, False
                leases = self._leases.with_work() if self._connected else []
            if ended:
                self._rest(_NOT_LET_IN_SECS)
                if not self._ending:
                    self._client.start_async()
                continue
            for lease in leases:
                self._advance(lease)

    def _has_work(self) -> bool:
        return self._ending or self._ended or (self._connected and bool(self._leases.with_work()))

    def _advance(self, lease: Lease) -> None:
        with self._changed:
            turn = self._leases.turn(lease)
        try:
            standing = turn.take(self._client)
        except NOT_NOW as error:
            log.debug("%s waits: %r", lease.path, error)
            lease.look = True
            self._rest()
            return
        except NoAuthError:
            self._refusal = not_allowed(self._auth, lease.path)
            self._rest()
            return
        except KazooException as error:
            self._refusal = f"{type(error).__name__} at {lease.path}"
            self._rest()
            return
        self._refusal = None
        with self._changed:
            self._leases.settle(turn, standing)
            self._changed.notify_all()

    def _rest(self, seconds: float = _AFTER_FAILURE_SECS) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ending, seconds)
