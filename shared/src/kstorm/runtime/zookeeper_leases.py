"""The leases of one ZooKeeper session: what each has to do, and what becomes of them when the session is lost.

No client and no thread is in here; whoever calls sees to it that calls do not overlap.
"""

from typing import Any, NamedTuple

from kstorm.kafka.ports import Ownership
from kstorm.runtime.zookeeper_lease import Lease


class Turn(NamedTuple):
    """What a lease was to do at one moment: whoever leaves has queued the last offset before."""

    lease: Lease
    session: int
    data: bytes | None
    leaving: bool

    def take(self, client: Any) -> Ownership:
        """Does it, asking ZooKeeper; see `Lease.advance`."""
        return self.lease.advance(client, self.data, self.leaving)


class Leases:
    """The leases of one session and of those that follow it."""

    def __init__(self) -> None:
        self._leases: list[Lease] = []
        self._sessions = 0

    def add(self, lease: Lease) -> None:
        """From now on it takes part."""
        self._leases.append(lease)

    def with_work(self) -> list[Lease]:
        """Those that have something to do."""
        return [lease for lease in self._leases if lease.has_work]

    def look_again(self) -> None:
        """Every lock that is waited for may be free."""
        for lease in self._leases:
            lease.look = True

    def lost(self) -> None:
        """The session has ended, and took all locks along."""
        self._sessions += 1
        self.look_again()
        for lease in self._leases:
            if lease.ownership is Ownership.HELD:
                lease.ownership = Ownership.WAITING

    def turn(self, lease: Lease) -> Turn:
        """What a lease is to do now."""
        return Turn(lease, self._sessions, lease.queued, lease.leaving)

    def settle(self, turn: Turn, standing: Ownership) -> None:
        """Notes how a turn ended."""
        lease = turn.lease
        if standing is not Ownership.WAITING and lease.queued is turn.data:
            lease.queued = None
        if standing is Ownership.HELD and turn.session != self._sessions:
            standing = Ownership.WAITING  # a session that ended meanwhile took the lock along
        lease.ownership = standing
        if lease.gone:
            self._leases.remove(lease)
