"""The locks of `FakeKafka` when tasks open in an odd order: no task waits forever."""

from types import SimpleNamespace
from typing import Any

import pytest

from kstorm.kafka import SpoutConfig
from kstorm.kafka.ports import OffsetStore, Ownership, Partition
from kstorm.testing.kafka.broker import PendingRequests
from kstorm.testing.kafka.offset_store import FakeNodes, FakeOffsets
from kstorm.testing.processes import PROCESS
from kstorm.topology import TopologyContext
from tests.unit.testing.test_fake_kafka import config, wired

PLACE = Partition("lines", 0)
SOURCE: SpoutConfig = config()


class Servers:
    """The nodes, and the processes with open stores for task 0 of the spout."""

    def __init__(self) -> None:
        self.nodes, self.answers = FakeNodes(), PendingRequests()

    def open(self, process: Any = None, task: int = 0) -> FakeOffsets:
        resources = {} if process is None else {PROCESS: process}
        context = TopologyContext(wired(SOURCE, tasks=2), "lines", task, resources)
        return FakeOffsets(self.nodes, self.answers, SOURCE, context)

    def acquired(self, store: OffsetStore) -> Ownership:
        """Returns the lock's state after all pending answers."""
        store.acquire(PLACE)
        while self.answers.next():
            pass
        return store.acquire(PLACE)


@pytest.fixture
def servers() -> Servers:
    """Provide a ZooKeeper without sessions."""
    return Servers()


def test_waiting_store_asks_again_after_the_session_ends(servers: Servers) -> None:
    """A zombie that opens its store late ends the session of the new owner.

    The new owner waits for another process's lock, and asks for it again.
    """
    other = servers.open(task=1)
    assert servers.acquired(other) is Ownership.HELD
    heir = servers.open()
    assert servers.acquired(heir) is Ownership.WAITING
    servers.open()  # the zombie's store, which requests nothing
    other.release(PLACE)
    assert servers.acquired(heir) is Ownership.HELD


def test_session_of_a_dead_process_ends_for_a_waiting_one(servers: Servers) -> None:
    """A zombie keeps its lock only while its process lives."""
    process = SimpleNamespace(dead=False)
    zombie = servers.open(process, task=1)
    assert servers.acquired(zombie) is Ownership.HELD
    heir = servers.open()
    assert servers.acquired(heir) is Ownership.WAITING
    process.dead = True
    assert heir.acquire(PLACE) is Ownership.WAITING  # no answer in the call itself
    assert servers.acquired(heir) is Ownership.HELD
