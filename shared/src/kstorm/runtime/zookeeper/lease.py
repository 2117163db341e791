"""One partition's lock and node in ZooKeeper: taking, writing, being fenced, giving up.

What waits for ZooKeeper is done on one thread, the session's (`kstorm.runtime.zookeeper.session`). A call whose connection
broke may have been done or not; so each is made such that doing it again is safe: the lock carries a mark by which it is
known again, and a write is known by its content and by the version that it made.
"""

import json
import logging
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
)

from kstorm.kafka.ports import Ownership, Partition
from kstorm.runtime.zookeeper.acl import check_own
from kstorm.runtime.zookeeper.session import Job

log = logging.getLogger(__name__)

NOTHING = b""
"""What a node holds of which nobody has stored an offset yet. It is there for its version, which who takes the lock next
can write anew as with any other."""


def node_path(root: str, partition: Partition) -> str:
    """The node of a partition's offset; `root` is `<zk_root>/<id>`."""
    return f"{root}/partition_{partition.partition}"


def lock_path(root: str, partition: Partition) -> str:
    """The node of a partition's lock."""
    return f"{root}/locks/partition_{partition.partition}"


class Lease(Job):
    """A partition's lock, and the right to write its node. `wake` is called when the lock may be free.

    `queued` and `leaving` say what is wanted of it, `ownership`, `data` and `gone` how it stands. With a login, `auth`, it is not
    held while everybody may change its node.
    """

    def __init__(
        self,
        root: str,
        partition: Partition,
        owner: dict[str, Any],
        wake: Callable[..., None],
        auth: str = "",
    ) -> None:
        self.path = node_path(root, partition)
        self._auth, self._obeyed = auth, (root, self.path)
        self.ownership = Ownership.WAITING
        """How the lock stands."""
        self.data = NOTHING
        """What the node holds."""
        self.queued: bytes | None = None
        """To be written next."""
        self.leaving = False
        """Whether the lock is to be given up."""
        self.gone = False
        """Whether it was."""
        self.look = True
        """Whether to try for the lock now."""
        self._lock_path = lock_path(root, partition)
        # The id tells this lease's lock from one that another lease of the same session holds.
        self._mark = json.dumps({**owner, "lease": uuid.uuid4().hex}).encode()
        self._wake = wake
        self._sessions_lost = 0
        self._taken = False  # whether the lock was ever had, so that data, _version and _written mean something
        self._version = -1
        self._written = (
            -1
        )  # zxid of the node's last write as we know it; unlike a version it is never used twice
        self._unsure: set[bytes] = set()  # writes since then whose answers were lost
        self._announced = False

    @property
    def has_duties(self) -> bool:
        """Whether something waits to be stored or released."""
        return not self.gone and (
            self.leaving or (self.queued is not None and self.ownership is not Ownership.FENCED)
        )

    @property
    def has_work(self) -> bool:
        """Whether a turn would do something."""
        if self.leaving:
            return not self.gone
        if self.ownership is Ownership.WAITING:
            return self.look
        return self.ownership is Ownership.HELD and self.queued is not None

    def look_again(self) -> None:
        """The lock may be free."""
        self.look = True

    def lost(self) -> None:
        """The session has ended, and took the lock along."""
        self._sessions_lost += 1
        self.look = True
        if self.ownership is Ownership.HELD:
            self.ownership = Ownership.WAITING

    def take_turn(self, client: KazooClient, lock: AbstractContextManager[Any]) -> None:
        """Does what is wanted at this moment; what is asked for meanwhile is for the next turn."""
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
                standing = Ownership.WAITING  # a session that ended meanwhile took the lock along
            self.ownership = standing

    def _advance(self, client: KazooClient, data: bytes | None, leaving: bool) -> Ownership:
        """Tries for the lock, writes `data`, and if `leaving` gives the lock up, the last offset written before. Returns how the
        lock stands then."""
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
        """The first time: learns what is stored, and fences whoever wrote it, or is about to be the first to write."""
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
        """After a lost session: takes the lock again, and looks whether it was someone else's in between."""
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
            client.create(self._lock_path, self._mark, ephemeral=True, makepath=True)
        except NodeExistsError:
            return self._is_mine(client)
        return True

    def _is_mine(self, client: KazooClient) -> bool:
        """Whether the lock was made by a call of this lease, in this session."""
        session = client.client_id
        if session is None:
            raise ConnectionLoss
        try:
            mark, stat = client.get(self._lock_path, watch=self._wake)
        except NoNodeError:
            self.look = True
            return False
        if mark == self._mark and stat.owner_session_id == session[0]:
            return True
        if not self._announced:
            self._announced = True
            log.info(
                "%s waits for its lock, which is held by %s",
                self.path,
                mark.decode(errors="replace"),
            )
        return False

    def _write(self, client: KazooClient, data: bytes) -> Ownership:
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
        """Whether the node is as a write of ours left it whose answer was lost. Its content alone does not say so: who
        takes the lock over writes again what it finds."""
        return found in self._unsure and stat.version == self._version + 1

    def _remember(self, data: bytes, stat: Any) -> None:
        self.data, self._version, self._written = (
            data,
            stat.version,
            stat.last_modified_transaction_id,
        )
        self._unsure.clear()

    def _fence(self, how: str) -> Ownership:
        log.warning("%s was %s: this process lets go of the partition", self.path, how)
        return Ownership.FENCED

    def _give_up(self, client: KazooClient) -> None:
        if self._is_mine(client):
            client.delete(self._lock_path)
        self.gone = True
