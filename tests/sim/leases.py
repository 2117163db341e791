"""One partition's lease, contended by processes that crash and lose their sessions and answers.

The leases are the production ones. Only the parts of ZooKeeper that they use are simulated. Some
processes are replaced by one of the same name while they still run. Checked at each write: an
offset never goes back, and no process moves it after another has taken over the lock. A process
that held the lock all the time is never fenced. Only a process of the same name replaces its lock.
"""

from collections.abc import Callable
from random import Random

from kstorm.kafka.ports import Ownership, Partition
from kstorm.runtime.zookeeper.lease import NOTHING, Lease
from kstorm.testing.scheduler import Step
from tests.sim.zookeeper import SimulatedSession, SimulatedZooKeeper

_PROCESSES = 3
_STEPS = 150
_LOCK = "/spout/locks/partition_0"


class LeaseError(AssertionError):
    """A lease violated a rule."""


class Owner:
    """A process that wants the partition, and stores a growing offset while it seems to hold it."""

    def __init__(self, zookeeper: SimulatedZooKeeper, name: str) -> None:
        self.background: list[Callable[[], list[Step]]] = []
        self.dead = self.zombie = False
        self.name, self._first = name, True
        self._offset: int | None = None
        self.session = SimulatedSession(zookeeper, self)
        self._begin()

    def wake(self) -> None:
        """No process sleeps here."""

    def ask_again(self) -> None:
        """Nothing is emitted here."""

    def step(self, random: Random) -> None:
        """Run one of the lease's possible steps."""
        if steps := self.session.ready():
            random.choice(steps)()
        if self.lease.gone or self.lease.ownership is Ownership.FENCED:
            self.leave()
            self._begin()

    def finish_messages(self, random: Random) -> None:
        """Advance the offset from where this process took it over."""
        if self.lease.ownership is not Ownership.HELD or self.lease.leaving:
            return
        if self._offset is None:
            self._offset = int(self.lease.data or 0)
        self._offset += random.randint(1, 3)
        self.session.save(self.lease, b"%d" % self._offset)

    def leave(self) -> None:
        """Release the partition."""
        self.session.release(self.lease)

    def _begin(self) -> None:
        owner = {"topology": "words", "component": "lines", "instance": self.name}
        self.lease = Lease(
            "/spout", Partition("source", 0), owner, self.session.wake, first=self._first
        )
        self._offset, self._first = None, False
        self.session.add(self.lease)


def explore_leases(seed: int) -> None:
    """Run one random schedule from a seed. Raises `LeaseError`."""
    random = Random(f"leases {seed}")
    zookeeper = SimulatedZooKeeper(random, lambda *write: _judge(zookeeper, *write))
    zookeeper.lossy = random.choice((0.0, 0.1, 0.3))
    owners = [Owner(zookeeper, f"lines-{number}") for number in range(_PROCESSES)]
    replaced: list[Owner] = []
    for _ in range(_STEPS):
        number = random.randrange(_PROCESSES)
        owner, chance = owners[number], random.random()
        if chance < 0.60:
            owner.step(random)
        elif chance < 0.85:
            owner.finish_messages(random)
        elif chance < 0.93:
            if zookeeper.sessions:
                zookeeper.expire(random.choice(list(zookeeper.sessions)))
        elif chance < 0.96:
            owner.leave()
        else:
            owner.dead = True  # its session lives on until it expires
            owners[number] = Owner(zookeeper, owner.name)
            replaced.append(owner)
        if replaced and random.random() < 0.1:
            paused = random.choice(replaced)
            paused.step(random)
            paused.finish_messages(random)
        if zookeeper.unfair:
            raise LeaseError(f"seed {seed}: a session was fenced that held the lock all the time")
        for former, taker in zookeeper.robbed:
            if former.name != taker.name or former is taker:
                raise LeaseError(f"seed {seed}: {taker.name} took the lock of {former.name}")


def _judge(
    zookeeper: SimulatedZooKeeper, path: str, before: bytes | None, after: bytes, by: int
) -> None:
    if after in (NOTHING, before):
        return
    if int(after) < int(before or 0):
        raise LeaseError(f"the offset went back from {int(before or 0)} to {int(after)}")
    owner = zookeeper.owner(_LOCK)
    if owner not in (None, by) and zookeeper.writers[path] == owner:
        raise LeaseError("the offset was moved under another's lock")
