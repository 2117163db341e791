"""One partition's lock and node in ZooKeeper: acquire, write, detect fencing, release.

Everything that waits for ZooKeeper runs on the session's thread
(`kstorm.runtime.zookeeper.session`). If a call loses its connection, it may have taken effect or
not. So every call can be repeated safely. The lock contains a mark that identifies its lease. A
write is recognised by its content and by the version that it created.
"""

import json
import logging
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from kstorm.kafka.ports import Ownership, Partition
from kstorm.runtime.zookeeper.acl import check_own
from kstorm.runtime.zookeeper.session import LockJob

log = logging.getLogger(__name__)

NOT_TO_BLAME: Final = (RolledBackError, RuntimeInconsistency)
"""Results of the other operations of a failed transaction."""

NOTHING = b""
"""Content of a node without a stored offset.

Such a node exists because of its version. The next owner of the lock rewrites it, like any other
node, and this fences the previous owner.
"""


def node_path(root: str, partition: Partition) -> str:
    """Return the node of a partition's offset. `root` is `<zk_root>/<id>`."""
    return f"{root}/partition_{partition.partition}"


def lock_path(root: str, partition: Partition) -> str:
    """Return the node of a partition's lock."""
    return f"{root}/locks/partition_{partition.partition}"


class Lease(LockJob):
    """A partition's lock, and the right to write its node. `wake` is called when the lock may be
    free.

    `queued` and `leaving` are requests. `ownership`, `data` and `gone` are the current state. With
    a login in `auth`, the lock is not acquired while everyone can change the node.

    `first` is True if this process requests the lock for the first time. Then it replaces a lock of
    the same instance. Its former process left that lock, which would last until the session expires.
    A former process that still runs is fenced, as after an expired session. Kafka has already
    removed it from the group.
    """

    def __init__(
        self,
        root: str,
        partition: Partition,
        owner: dict[str, Any],
        wake: Callable[..., None],
        auth: str = "",
        first: bool = False,
    ) -> None:
        self.path = node_path(root, partition)
        self._auth, self._obeyed = auth, (root, self.path)
        self.ownership = Ownership.WAITING
        """State of the lock."""
        self.data = NOTHING
        """Content of the node."""
        self.gone = False
        """True once the lock is released."""
        self.look = True
        """True to try to acquire the lock now."""
        self.lock_path = lock_path(root, partition)
        # The ID distinguishes this lease's lock from that of another lease in the same session.
        self._mark = json.dumps({**owner, "lease": uuid.uuid4().hex}).encode()
        self._name, self._first = _name(owner), first
        self._wake = wake
        self._sessions_lost = 0
        # True once the lock was held. From then on data, _version and _written are valid.
        self._taken = False
        self._version = -1
        # The zxid of the node's last known write. Unlike a node's version, a zxid is never reused.
        self._written = -1
        # Contents of the writes since then whose result is unknown.
        self._unsure: set[bytes] = set()
        self._announced = False

    @property
    def has_duties(self) -> bool:
        """True while an offset waits to be stored, or the lock to be released."""
        return not self.gone and (
            self.leaving or (self.queued is not None and self.ownership is not Ownership.FENCED)
        )

    @property
    def has_work(self) -> bool:
        if self.leaving:
            return not self.gone
        if self.ownership is Ownership.WAITING:
            return self.look
        return self.ownership is Ownership.HELD and self.queued is not None

    def look_again(self) -> None:
        self.look = True

    def lost(self) -> None:
        """The session has ended, and its locks are gone."""
        self._sessions_lost += 1
        self.look = True
        if self.ownership is Ownership.HELD:
            self.ownership = Ownership.WAITING

    def take_turn(self, client: KazooClient, lock: AbstractContextManager[Any]) -> None:
        """Execute the current requests. Requests that are made in the meantime are executed in the
        next turn."""
        with lock:
            lost, data, leaving = self._sessions_lost, self.queued, self.leaving
        try:
            standing = self._advance(client, data, leaving)
        except KazooException:
            self.look = True
            raise
        with lock:
            if standing is not Ownership.WAITING and self.queued is data:
                self.queued = None
            if standing is Ownership.HELD and lost != self._sessions_lost:
                # The session ended in the meantime, and its locks are gone.
                standing = Ownership.WAITING
            self.ownership = standing

    def _advance(self, client: KazooClient, data: bytes | None, leaving: bool) -> Ownership:
        """Try to acquire the lock and write `data`. If `leaving`, first write the last offset and
        then release the lock.

        Returns the new state of the lock.
        """
        standing = self.ownership
        if standing is Ownership.WAITING and (data is not None or not leaving):
            self.look = False
            standing = self._resume(client) if self._taken else self._take_over(client)
        if standing is Ownership.HELD and data is not None:
            standing = self._write(client, data)
        if leaving:
            self._give_up(client)
        return standing

    def _take_over(self, client: KazooClient) -> Ownership:
        """Acquire the lock for the first time and read the stored offset.

        This fences every process that has written an offset or is about to write the first one.
        """
        if not self._lock(client):
            return Ownership.WAITING
        check_own(client, self._auth, self._obeyed)
        try:
            data, stat = client.get(self.path)
            stat = client.set(self.path, data, version=stat.version)
        except NoNodeError:
            with suppress(NodeExistsError):
                client.create(self.path, NOTHING, makepath=True)
            return self._take_over(client)
        except BadVersionError:
            self.look = True
            return Ownership.WAITING
        self._remember(data, stat)
        self._taken = True
        return Ownership.HELD

    def _resume(self, client: KazooClient) -> Ownership:
        """Acquire the lock again after a lost session, and check whether another process had it in
        between."""
        if not self._lock(client):
            return Ownership.WAITING
        check_own(client, self._auth, self._obeyed)
        try:
            data, stat = client.get(self.path)
        except NoNodeError:
            return self._fence("deleted")
        if stat.last_modified_transaction_id != self._written and not self._wrote(data, stat):
            return self._fence("written by another process")
        self._remember(data, stat)
        return Ownership.HELD

    def _lock(self, client: KazooClient) -> bool:
        try:
            client.create(self.lock_path, self._mark, ephemeral=True, makepath=True)
        except NodeExistsError:
            mark, is_mine = self._read_lock(client)
            if self._first and not is_mine and self._is_predecessors(mark):
                log.info("%s takes the lock of a former process of its instance", self.path)
                return self._replace(client)
            self._first = False
            if mark and not is_mine and not self._announced:
                self._announced = True
                log.info(
                    "%s waits for its lock, which is held by %s",
                    self.path,
                    mark.decode(errors="replace"),
                )
            return is_mine
        self._first = False
        return True

    def _replace(self, client: KazooClient) -> bool:
        """Delete the lock and create it in one transaction, because others wait for it."""
        transaction = client.transaction()
        transaction.delete(self.lock_path)
        transaction.create(self.lock_path, self._mark, ephemeral=True)
        for result in transaction.commit():
            if isinstance(result, NoNodeError):
                self.look = True
                return False
            if isinstance(result, Exception) and not isinstance(result, NOT_TO_BLAME):
                raise result
        self._first = False
        return True

    def _read_lock(self, client: KazooClient) -> tuple[bytes, bool]:
        """Return the lock's mark, and whether this lease created the lock in this session. Without a
        lock the mark is empty."""
        session = client.client_id
        if session is None:
            raise ConnectionLoss
        try:
            mark, stat = client.get(self.lock_path, watch=self._wake)
        except NoNodeError:
            self.look = True
            return b"", False
        return mark, mark == self._mark and stat.owner_session_id == session[0]

    def _is_predecessors(self, mark: bytes) -> bool:
        try:
            return self._name is not None and _name(json.loads(mark)) == self._name
        except ValueError:
            return False

    def _write(self, client: KazooClient, data: bytes) -> Ownership:
        if data == self.data and not self._unsure:
            # Only the release after this write failed. With a second write of the same content,
            # `_wrote` would accept a new owner's write as its own.
            return Ownership.HELD
        self._unsure.add(data)
        try:
            stat = client.set(self.path, data, version=self._version)
        except NoNodeError:
            return self._fence("deleted")
        except BadVersionError:
            found, stat = client.get(self.path)
            if not self._wrote(found, stat):
                return self._fence("written by another process")
            self._remember(found, stat)
            return Ownership.HELD if found == data else self._write(client, data)
        self._remember(data, stat)
        return Ownership.HELD

    def _wrote(self, found: bytes, stat: Any) -> bool:
        """Return True if the node is in the state that a write of this lease with an unknown result
        would leave.

        The content alone does not prove it, because a new owner of the lock rewrites the existing
        content.
        """
        return found in self._unsure and stat.version == self._version + 1

    def _remember(self, data: bytes, stat: Any) -> None:
        self.data, self._version, self._written = (
            data,
            stat.version,
            stat.last_modified_transaction_id,
        )
        self._unsure.clear()

    def _fence(self, how: str) -> Ownership:
        log.warning("%s was %s: this process releases the partition", self.path, how)
        return Ownership.FENCED

    def _give_up(self, client: KazooClient) -> None:
        _, is_mine = self._read_lock(client)
        if is_mine:
            client.delete(self.lock_path)
        self.gone = True


def _name(mark: Any) -> tuple[str, str, str] | None:
    """Return the unique name of a lock's process, or None if it has no name."""
    match mark:
        case {"topology": str(topology), "component": str(component), "instance": str(instance)}:
            return topology, component, instance
    return None
