"""A ZooKeeper in memory, and the sessions in which the production leases use it.

It simulates the parts of ZooKeeper that leases use. Nodes have versions, ephemeral nodes end with
their session, and watches fire once. Answers are lost before or after the request was executed.
Sessions expire unnoticed.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    RuntimeInconsistency,
    SessionExpiredError,
)

from kstorm.kafka.ports import Ownership
from kstorm.runtime.zookeeper.lease import Lease
from kstorm.testing.scheduler import Step

_MOST_TRIES = 50
_NO_LOCK = nullcontext()  # there is only one thread
_HEARD_FIRST = 0.2
"""Probability that a client learns of its session's end before it sends its next request."""

T = TypeVar("T")
Watch = Callable[..., object]


class SessionHost(Protocol):
    """A process that has a session."""

    background: list[Callable[[], list[Step]]]
    dead: bool
    zombie: bool

    def wake(self) -> None:
        """The process may have something to do."""

    def ask_again(self) -> None:
        """The process's spouts may have something to emit."""


class Stat(NamedTuple):
    """The fields of kazoo's `ZnodeStat` that leases use."""

    version: int
    last_modified_transaction_id: int
    owner_session_id: int


@dataclass
class _Node:
    data: bytes
    stat: Stat


class SimulatedZooKeeper:
    """The server. `written` is called at each write of a node that is not ephemeral.

    Its arguments are the path, the data before and after, and the session that wrote it.
    """

    versioned: ClassVar[bool] = True
    """True if writes must match the version that they name. A test switches it off."""

    def __init__(
        self, random: Random, written: Callable[[str, bytes | None, bytes, int], None]
    ) -> None:
        self.random, self._written = random, written
        self.lossy = 0.0
        """Probability that a connection breaks at a request. Half of those were still executed."""
        self.down = False
        """True while it cannot be reached."""
        self.sessions: dict[int, SimulatedSession] = {}
        """Sessions that have not expired."""
        self.writers: dict[str, int] = {}
        """The session that wrote each node last."""
        self.unfair: list[str] = []
        """Paths from which a session was fenced although it held their lock all the time."""
        self.robbed: list[tuple[Any, Any]] = []
        """Processes whose lock another one deleted, each with that other one."""
        self._taken: set[tuple[int, str]] = set()
        self._nodes: dict[str, _Node] = {}
        self._watches: dict[str, list[Watch]] = {}
        self._transactions = 0
        self._last_session = 0

    def begin(self, session: "SimulatedSession") -> int:
        """Start a session."""
        self._last_session += 1
        self.sessions[self._last_session] = session
        return self._last_session

    def expire(self, number: int) -> None:
        """End a session. Its client does not learn of it before its next request."""
        del self.sessions[number]
        for path in [
            path for path, node in self._nodes.items() if node.stat.owner_session_id == number
        ]:
            self.delete(path)

    def expire_the_dead(self) -> bool:
        """End the sessions of unresponsive processes. Return True if there were any."""
        dead = [
            number
            for number, session in self.sessions.items()
            if session.process.dead or session.process.zombie
        ]
        for number in dead:
            self.expire(number)
        return bool(dead)

    def restart(self) -> None:
        """Make it reachable again."""
        self.down = False
        for session in self.sessions.values():
            session.process.wake()

    def read(self, path: str, watch: Watch | None) -> tuple[bytes, Stat]:
        """Return a node's data. The watch fires at its next change."""
        if path not in self._nodes:
            raise NoNodeError
        if watch is not None:
            self._watches.setdefault(path, []).append(watch)
        return self._nodes[path].data, self._nodes[path].stat

    def owner(self, path: str) -> int | None:
        """Return the session of an ephemeral node, or None if the node does not exist."""
        node = self._nodes.get(path)
        return None if node is None else node.stat.owner_session_id

    def is_taken(self, session: int, path: str) -> bool:
        """Return True if another process deleted the session's ephemeral node."""
        return (session, path) in self._taken

    def create(self, path: str, data: bytes, by: int, ephemeral: bool) -> Stat:
        if path in self._nodes:
            raise NodeExistsError
        self._taken.discard((by, path))
        return self._put(path, data, 0, by if ephemeral else 0, by)

    def write(self, path: str, data: bytes, version: int, by: int) -> Stat:
        """Write data to a node whose version is `version`."""
        if path not in self._nodes:
            raise NoNodeError
        stat = self._nodes[path].stat
        if self.versioned and version not in (-1, stat.version):
            raise BadVersionError
        return self._put(path, data, stat.version + 1, stat.owner_session_id, by)

    def delete(self, path: str, by: int = 0) -> None:
        node = self._nodes.pop(path, None)
        if node is None:
            raise NoNodeError
        owner = node.stat.owner_session_id
        if by and owner != by:
            self.robbed.append((self.sessions[owner].process, self.sessions[by].process))
            self._taken.add((owner, path))
        self._fire(path)

    def _put(self, path: str, data: bytes, version: int, owner: int, by: int) -> Stat:
        self._transactions += 1
        before = self._nodes.get(path)
        stat = Stat(version, self._transactions, owner)
        self._nodes[path] = _Node(data, stat)
        if not owner:
            self._written(path, None if before is None else before.data, data, by)
        self.writers[path] = by
        self._fire(path)
        return stat

    def _fire(self, path: str) -> None:
        for watch in self._watches.pop(path, ()):
            watch()


class SimulatedSession:
    """A process's access to ZooKeeper, in steps of the process.

    It has the interface of `kstorm.runtime.zookeeper.offset_store.OffsetSession`.
    """

    def __init__(self, zookeeper: SimulatedZooKeeper, process: SessionHost) -> None:
        self.process = process
        self._zookeeper = zookeeper
        self._leases: list[Lease] = []
        self._number = zookeeper.begin(self)
        process.background.append(self.ready)

    def ready(self) -> list[Step]:
        """Return the possible steps for the leases."""
        if self._zookeeper.down:
            return []
        steps: list[Step] = [
            partial(self._advance, lease) for lease in self._leases if lease.has_work
        ]
        if not self._is_alive and (not steps or self._zookeeper.random.random() < _HEARD_FIRST):
            steps = [self._hear_of_the_end]
        return steps

    def add(self, lease: Lease) -> None:
        self._leases.append(lease)
        self.process.wake()

    def save(self, lease: Lease, data: bytes) -> None:
        lease.queued = data
        self.process.wake()

    def release(self, lease: Lease) -> None:
        lease.leaving = True
        self.process.wake()

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Do the pending work, because no other thread would."""
        for _ in range(_MOST_TRIES):
            steps = self.ready()
            if condition() or not steps:
                break
            steps[0]()
        return condition()

    def wake(self, *_: Any) -> None:
        for lease in self._leases:
            lease.look_again()
        self.process.wake()

    def problem(self, *_: Any) -> str:
        """Reports no problems to simulated spouts."""
        return ""

    def _advance(self, lease: Lease) -> None:
        held = lease.ownership is Ownership.HELD and not lease.leaving
        number = self._number
        try:
            lease.take_turn(self, _NO_LOCK)
        except (ConnectionLoss, SessionExpiredError):
            return
        if (
            held
            and lease.ownership is Ownership.FENCED
            and self._number == number
            and self._is_alive
            and not self._zookeeper.is_taken(number, lease.lock_path)
        ):
            self._zookeeper.unfair.append(lease.path)
        if lease.gone:
            self._leases.remove(lease)
        self.process.ask_again()

    def _hear_of_the_end(self) -> None:
        for lease in self._leases:
            lease.lost()
        self._number = self._zookeeper.begin(self)

    @property
    def _is_alive(self) -> bool:
        return self._number in self._zookeeper.sessions

    # The methods of a kazoo client that leases use. An expired session may be replaced between two
    # requests of one turn.

    @property
    def client_id(self) -> tuple[int, bytes]:
        return self._number, b""

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return self._request(lambda: self._zookeeper.read(path, watch))

    def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, makepath: bool = True
    ) -> None:
        self._request(lambda: self._zookeeper.create(path, data, self._number, ephemeral))

    def set(self, path: str, data: bytes, version: int = -1) -> Stat:
        return self._request(lambda: self._zookeeper.write(path, data, version, self._number))

    def delete(self, path: str) -> None:
        self._request(lambda: self._zookeeper.delete(path, self._number))

    def transaction(self) -> "_Replacement":
        return _Replacement(self)

    def commit(self, replacement: "_Replacement") -> tuple[Any, Any]:
        return self._request(lambda: replacement.execute(self._zookeeper, self._number))

    def _request(self, do: Callable[[], T]) -> T:
        zookeeper = self._zookeeper
        chance = zookeeper.random.random
        if not self._is_alive:
            if chance() < 0.5:
                raise SessionExpiredError
            self._hear_of_the_end()
        broken = chance() < zookeeper.lossy
        if broken and chance() < 0.5:
            raise ConnectionLoss
        answer = do()
        if broken:
            raise ConnectionLoss
        return answer


class _Replacement:
    """A transaction that deletes a lock and creates it."""

    def __init__(self, session: SimulatedSession) -> None:
        self._session = session
        self._mark = b""
        self._path = ""

    def delete(self, path: str) -> None:
        self._path = path

    def create(self, path: str, data: bytes, *, ephemeral: bool) -> None:
        assert (path, ephemeral) == (self._path, True)
        self._mark = data

    def commit(self) -> tuple[Any, Any]:
        return self._session.commit(self)

    def execute(self, zookeeper: SimulatedZooKeeper, by: int) -> tuple[Any, Any]:
        try:
            zookeeper.delete(self._path, by)
        except NoNodeError as error:
            return error, RuntimeInconsistency()
        return True, zookeeper.create(self._path, self._mark, by, ephemeral=True)
