"""The only ZooKeeper session of a process is shared by the watch of its topology and its spouts'
offsets."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kazoo.security import make_digest_acl

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.kafka import KafkaHosts, SpoutConfig
from kstorm.kafka.ports import Ownership
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.resources import Resources
from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsets, ZooKeeperOffsetStores
from kstorm.runtime.zookeeper.session import SessionJob, ZooKeeperSession
from kstorm.runtime.zookeeper.topology_nodes import (
    SpoutReport,
    deactivated_path,
    make_root,
    spouts_path,
)
from kstorm.runtime.zookeeper.topology_watch import TopologyWatch
from tests.conftest import Eventually
from tests.integration.test_zookeeper_offsets import P0, SESSION_SECS, World, at, expire, save


class Process:
    """A session with its users, and a second client."""

    def __init__(self, world: World, topology: str) -> None:
        self.world, self.onlooker = world, world.client
        self.session = ZooKeeperSession(world.connect, timeout=SESSION_SECS)
        self.watch = TopologyWatch(world.connect, "", topology, self.session)
        self.stores = ZooKeeperOffsetStores(world.connect, SESSION_SECS, session=self.session)
        self.topology = topology
        self.report = f"{spouts_path(topology)}/lines:lines-0"

    def begin(self, eventually: Eventually) -> ZooKeeperOffsets:
        """Create all of its nodes in ZooKeeper."""
        self.watch.tell(SpoutReport("lines", "lines-0", True, 0, 0, 30.0))
        self.watch.start()
        store = self.world.store(self.stores)
        eventually(lambda: store.acquire(P0) is Ownership.HELD and self.owner(self.report), 20)
        return store

    def owner(self, path: str) -> int | None:
        """Return the session of an ephemeral node."""
        stat = self.onlooker.exists(path)
        return None if stat is None else stat.ephemeralOwner

    def close(self) -> None:
        self.watch.close()
        self.stores.close()
        self.session.close()


@pytest.fixture
def world(zookeeper: EmbeddedZooKeeper, topic_prefix: str) -> Iterator[World]:
    """A separate place in the session's ZooKeeper."""
    made = World(zookeeper.connect, topic_prefix)
    yield made
    made.close()


@pytest.fixture
def process(world: World, topic_prefix: str) -> Iterator[Process]:
    """A process that has not started yet."""
    made = Process(world, topic_prefix)
    yield made
    made.close()


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "zookeeper"}


def test_process_has_one_session_and_one_thread(process: Process, eventually: Eventually) -> None:
    """Lock and report disappear with the session, when its owner closes it."""
    before = threads()
    store = process.begin(eventually)
    assert len(threads() - before) == 1
    assert process.owner(process.report) == process.owner(process.world.lock)
    process.stores.close()
    process.watch.close()
    save(store, 3)
    assert process.world.offset() == 3
    assert process.owner(process.report)
    process.session.close()
    eventually(
        lambda: process.owner(process.report) is None and process.owner(process.world.lock) is None,
        2,
    )


@pytest.mark.slow
def test_spout_may_have_another_zookeeper(process: Process, eventually: Eventually) -> None:
    """Its offsets then have a separate session.

    The address decides, here another name of the same server.
    """
    store = process.begin(eventually)
    port = int(process.world.connect.rpartition(":")[2])
    config = SpoutConfig(
        KafkaHosts(),
        "sentences",
        process.world.config.zk_root,
        "own",
        zk_servers=["localhost"],
        zk_port=port,
    )
    other = process.stores.open(config, process.world.context)
    assert other._session is not store._session
    eventually(lambda: other.acquire(P0) is Ownership.HELD, 20)
    lock = f"{config.zk_path}/locks/partition_0"
    assert process.owner(lock) not in (None, process.owner(process.world.lock))
    process.stores.close()
    eventually(lambda: process.owner(lock) is None, 2)
    assert process.owner(process.world.lock)


def test_nodes_are_recreated_after_an_expired_session(
    process: Process, eventually: Eventually
) -> None:
    """These are the lock, the report and the watch."""
    store = process.begin(eventually)
    save(store, 5)
    first = process.owner(process.world.lock)
    expire(store, process.world.connect)
    eventually(lambda: process.owner(process.world.lock) not in (None, first), 20)
    eventually(lambda: process.owner(process.report) == process.owner(process.world.lock), 20)
    save(store, 6)
    assert process.world.offset() == 6
    process.onlooker.create(deactivated_path(process.topology), b"by hand")
    eventually(lambda: not process.watch.active, 4)  # through its watch, before its regular check


@pytest.mark.slow
def test_rejection_of_the_watch_does_not_affect_offsets(
    process: Process, eventually: Eventually
) -> None:
    """Another user owns the topology's node.

    The offsets are stored, and only the watch has a problem.
    """
    make_root(process.onlooker)
    acl = [make_digest_acl("her", "secret", all=True)]
    process.onlooker.create(f"/kstorm-topologies/{process.topology}", acl=acl)
    process.watch.tell(SpoutReport("lines", "lines-0", True, 0, 0, 30.0))
    process.watch.start()
    eventually(lambda: "may not use" in process.watch.problem, 20)
    store = process.world.store(process.stores)
    eventually(lambda: store.acquire(P0) is Ownership.HELD, 20)
    for offset in range(50):
        store.save(P0, at(offset))
        assert store.flush(0.9)  # no lease waits for the watch's retry
    assert process.world.offset() == 49
    assert store.problem() is None
    assert "a client without a login may not use" in process.watch.problem


class Broken(SessionJob):
    """A job with a defect."""

    path, has_work, turns = "/broken", True, 0

    def look_again(self) -> None:
        """Do nothing: there is always work."""

    def lost(self) -> None:
        """Do nothing."""

    def take_turn(self, client: Any, lock: AbstractContextManager[Any]) -> None:
        self.turns += 1
        raise ValueError("a defect")


@pytest.mark.slow
def test_defect_of_one_job_does_not_end_the_thread(
    process: Process, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once with its place, and the other jobs continue."""
    broken = Broken()
    process.session.add(broken)
    eventually(lambda: broken.turns == 2, 20)
    save(process.begin(eventually), 7)
    assert [
        record.exc_info is not None for record in caplog.records if record.message == "/broken"
    ] == [True]
    assert "refuses: ValueError at /broken: a defect" in process.session.problem([broken], "")


@pytest.mark.slow
def test_resources_of_a_process_use_its_session(process: Process, eventually: Eventually) -> None:
    """They do not close it."""
    store = process.begin(eventually)
    resources = Resources(
        Settings(topology="unused", zookeeper=process.world.connect), session=process.session
    )
    lent = resources.lent["kafka"].open_offsets(process.world.config, process.world.context)
    assert isinstance(lent, ZooKeeperOffsets)
    assert lent._session is store._session
    resources.close()
    save(store, 1)
    assert process.owner(process.world.lock)
