"""Offsets and locks in a real ZooKeeper: which task writes, which one waits, and the effect of outages and lost
sessions."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.errors import ConfigError, FencedError
from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig, StoredOffset
from kstorm.kafka.offsets import TopologyRef
from kstorm.kafka.ports import Broker, Ownership, Partition
from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsets, ZooKeeperOffsetStores
from kstorm.runtime.zookeeper.session import ZooKeeperSession
from kstorm.topology import BasicBolt, TopologyBuilder, TopologyContext
from tests.conftest import Eventually

P0 = Partition("sentences", 0)
SESSION_SECS = 2.0


def context(config: SpoutConfig) -> TopologyContext:
    """Return the context of a spout's only task."""
    builder = TopologyBuilder("words")
    builder.set_spout("lines", KafkaSpout(config))
    builder.set_bolt("sink", BasicBolt()).shuffle_grouping("lines")
    return TopologyContext(builder.build(), "lines", 0)


class World:
    """Stores of one spout's reading, each in its own session, and a plain client."""

    def __init__(self, connect: str, root: str) -> None:
        self.config = SpoutConfig(KafkaHosts(), "sentences", f"/{root}", "words")
        self.context = context(self.config)
        self.connect = connect
        self.processes: list[ZooKeeperOffsetStores] = []
        self.client = KazooClient(connect, timeout=10.0)
        self.client.start(timeout=30)

    def process(self, instance: str = "", secs: float = SESSION_SECS) -> ZooKeeperOffsetStores:
        """Return the session of another process."""
        self.processes.append(ZooKeeperOffsetStores(self.connect, secs, instance=instance))
        return self.processes[-1]

    def store(self, process: ZooKeeperOffsetStores | None = None) -> ZooKeeperOffsets:
        """Return the store of a spout task, by default in another process."""
        return (process or self.process()).open(self.config, self.context)

    def held(self, eventually: Eventually) -> ZooKeeperOffsets:
        """Return a store that holds the lock of partition 0."""
        store = self.store()
        eventually(lambda: store.acquire(P0) is Ownership.HELD, 20)
        return store

    @property
    def node(self) -> str:
        return f"{self.config.zk_path}/partition_0"

    @property
    def lock(self) -> str:
        return f"{self.config.zk_path}/locks/partition_0"

    def offset(self) -> int | None:
        """Return the node's offset, from a client that is independent of kstorm."""
        if self.client.exists(self.node) is None:
            return None
        data, _ = self.client.get(self.node)
        return int(json.loads(data)["offset"]) if data else None

    def close(self) -> None:
        for process in self.processes:
            process.close()
        self.client.stop()
        self.client.close()


@pytest.fixture
def world(zookeeper: EmbeddedZooKeeper, topic_prefix: str) -> Iterator[World]:
    """A separate place in the session's ZooKeeper."""
    made = World(zookeeper.connect, topic_prefix)
    yield made
    made.close()


def at(offset: int) -> StoredOffset:
    return StoredOffset.of(TopologyRef("words-1", "words"), P0, offset, Broker("kafka-0", 9092))


def _client(store: ZooKeeperOffsets) -> KazooClient:
    assert isinstance(store._session, ZooKeeperSession)
    return store._session._client


def expire(store: ZooKeeperOffsets, connect: str) -> None:
    """Make ZooKeeper end the store's session, as after a timeout."""
    twin = KazooClient(connect, client_id=_client(store).client_id)
    twin.start(timeout=30)
    twin.stop()
    twin.close()


def save(store: ZooKeeperOffsets, offset: int) -> None:
    """Store an offset and wait for its completion."""
    store.save(P0, at(offset))
    assert store.flush(30)


@pytest.mark.slow
def test_outdated_offsets_are_skipped(world: World, eventually: Eventually) -> None:
    """The store is called faster than ZooKeeper responds."""
    store = world.held(eventually)
    for offset in range(2000):
        store.save(P0, at(offset))
    assert store.flush(30)
    assert world.offset() == 1999
    assert world.client.get(world.node)[1].version < 1999


def test_next_owner_waits_for_the_lock_and_resumes(world: World, eventually: Eventually) -> None:
    """After the release it reads the stored offset."""
    first = world.held(eventually)
    assert first.load(P0) is None
    second = world.store()
    second.acquire(P0)
    for offset in (1, 2, 3):
        save(first, offset)
        assert second.acquire(P0) is Ownership.WAITING
    first.save(P0, at(4))
    first.release(P0)
    eventually(lambda: second.acquire(P0) is Ownership.HELD, 20)
    assert second.load(P0) == at(4)


@pytest.mark.slow
def test_last_offset_is_stored_before_the_release(world: World, eventually: Eventually) -> None:
    """This holds during another write too."""
    for round in range(0, 100, 2):
        store = world.store(world.processes[0] if world.processes else None)
        eventually(partial(lambda store: store.acquire(P0) is Ownership.HELD, store), 20)
        store.save(P0, at(round))
        if round % 4:
            eventually(lambda: world.offset() is not None, 20)
        store.save(P0, at(round + 1))
        store.close()
        eventually(lambda: world.client.exists(world.lock) is None, 20)
        assert world.offset() == round + 1


@pytest.mark.slow
def test_tasks_of_one_process_exclude_each_other(world: World, eventually: Eventually) -> None:
    """They share a session, but a lock belongs to one store."""
    process = world.process()
    first, second = world.store(process), world.store(process)
    eventually(lambda: first.acquire(P0) is Ownership.HELD, 20)
    second.acquire(P0)
    assert second._session is first._session
    for offset in range(20):
        save(first, offset)
        assert second.acquire(P0) is Ownership.WAITING
    first.close()
    eventually(lambda: second.acquire(P0) is Ownership.HELD, 20)


@pytest.mark.parametrize("before", [None, 5])
def test_stale_owner_cannot_move_the_offset(
    world: World, eventually: Eventually, before: int | None
) -> None:
    """It does not know that it lost its lock.

    The node's version stops it, before and after a write of the new owner.
    """
    stale = world.held(eventually)
    if before is not None:
        save(stale, before)
    world.client.delete(
        world.lock
    )  # an expired session has this effect, but the process does not know
    owner = world.held(eventually)
    save(owner, 8)
    stale.save(P0, at(6))
    eventually(lambda: stale.acquire(P0) is Ownership.FENCED, 20)
    assert world.offset() == 8
    with pytest.raises(FencedError, match="belongs to another process"):
        stale.save(P0, at(9))
    save(owner, 10)
    assert world.offset() == 10


def test_new_owner_fences_the_old_one(world: World, eventually: Eventually) -> None:
    """This needs no write: the old owner's version is outdated."""
    stale = world.held(eventually)
    save(stale, 5)
    world.client.delete(world.lock)
    world.held(eventually)
    stale.save(P0, at(6))
    eventually(lambda: stale.acquire(P0) is Ownership.FENCED, 20)
    assert world.offset() == 5


def test_process_that_returns_takes_the_lock_of_the_former_one(
    world: World, eventually: Eventually
) -> None:
    """It does not wait for the end of the session. Other processes do. If the former one still
    runs, it is fenced, and does not take the lock back."""
    # the session outlasts the test
    former = world.store(world.process("words-lines-0", secs=40))
    eventually(lambda: former.acquire(P0) is Ownership.HELD, 20)
    save(former, 5)
    other, unnamed = world.store(world.process("words-lines-1")), world.store()
    other.acquire(P0)
    unnamed.acquire(P0)
    process = world.process("words-lines-0")
    heir, second = world.store(process), world.store(process)
    eventually(lambda: heir.acquire(P0) is Ownership.HELD, 20)
    assert heir.load(P0) == at(5)
    former.save(P0, at(6))
    eventually(lambda: former.acquire(P0) is Ownership.FENCED, 20)
    former.release(P0)
    assert former.flush(20)
    for offset in range(7, 20):
        save(heir, offset)
        for waiting in (former, second, other, unnamed):
            assert waiting.acquire(P0) is Ownership.WAITING
    assert world.offset() == 19


@pytest.mark.slow
def test_fenced_owner_can_wait_again(world: World, eventually: Eventually) -> None:
    """After `release` it resumes from the offset of the other owner."""
    stale = world.held(eventually)
    save(stale, 5)
    world.client.delete(world.lock)
    owner = world.held(eventually)
    save(owner, 8)
    stale.save(P0, at(6))
    eventually(lambda: stale.acquire(P0) is Ownership.FENCED, 20)
    stale.release(P0)
    assert stale.acquire(P0) is Ownership.WAITING
    assert stale.flush(20)
    assert (
        world.client.exists(world.lock) is not None
    )  # the owner's lock, which the stale owner has not deleted
    owner.close()
    eventually(lambda: stale.acquire(P0) is Ownership.HELD, 20)
    assert stale.load(P0) == at(8)


@pytest.mark.slow
def test_expired_session_without_another_owner_has_no_effect(
    world: World, eventually: Eventually
) -> None:
    """The lock is taken again, and the partition never counts as lost."""
    store = world.held(eventually)
    save(store, 5)
    session = _client(store).client_id[0]
    expire(store, world.connect)
    eventually(lambda: _client(store).connected and _client(store).client_id[0] != session, 20)
    seen = set()

    def held() -> bool:
        seen.add(store.acquire(P0))
        return store.acquire(P0) is Ownership.HELD and world.client.exists(world.lock) is not None

    eventually(held, 20)
    save(store, 6)
    assert world.offset() == 6
    assert Ownership.FENCED not in seen


FROZEN_OWNER = """
import sys
sys.path.insert(0, sys.argv[1])
from test_zookeeper_offsets import P0, World, at
world = World(sys.argv[2], sys.argv[3])
store = world.store()
for line in sys.stdin:
    if line.startswith("save"):
        store.save(P0, at(int(line.split()[1])))
    print(store.acquire(P0).name, flush=True)
"""


def test_paused_owner_loses_the_partition(world: World, eventually: Eventually) -> None:
    """It was paused beyond its session. It finds another owner, and moves no offset."""
    command = [
        sys.executable,
        "-c",
        FROZEN_OWNER,
        str(Path(__file__).parent),
        world.connect,
        world.config.zk_root[1:],
    ]
    owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(what: str = "how") -> str:
        assert owner.stdin is not None
        assert owner.stdout is not None
        owner.stdin.write(what + "\n")
        owner.stdin.flush()
        return owner.stdout.readline().strip()

    try:
        eventually(lambda: ask() == "HELD", 30)
        ask("save 5")
        eventually(lambda: world.offset() == 5, 20)
        second = world.store()
        assert second.acquire(P0) is Ownership.WAITING
        owner.send_signal(signal.SIGSTOP)
        eventually(lambda: second.acquire(P0) is Ownership.HELD, SESSION_SECS + 20)
        assert second.load(P0) == at(5)
        save(second, 8)
        owner.send_signal(signal.SIGCONT)
        ask("save 6")
        eventually(lambda: ask() == "WAITING", 20)
        ask("save 7")
        assert world.offset() == 8
        second.close()
        eventually(lambda: ask() == "FENCED", 20)
        assert world.offset() == 8
    finally:
        owner.kill()
        owner.communicate()


@pytest.mark.slow
def test_lock_released_during_an_outage_is_released_after_it(
    tmp_path: Path, eventually: Eventually
) -> None:
    """Otherwise the next owner would wait until this process ends."""
    with EmbeddedZooKeeper(tmp_path) as zookeeper:
        world = World(zookeeper.connect, "outage")
        store = world.held(eventually)
        zookeeper.stop()
        eventually(lambda: store.problem() is not None, 20)
        store.save(P0, at(2))
        store.close()
        zookeeper.start()
        # In an outage beyond the session the lock is lost first, and taken again to store the
        # offset.
        eventually(lambda: world.client.connected and world.offset() == 2, 30)
        eventually(lambda: world.client.exists(world.lock) is None, 30)
        world.close()


@pytest.mark.slow
def test_unreachable_zookeeper_is_named(eventually: Eventually) -> None:
    """Opening does not wait.

    The problem is reported some seconds later, and closing does not hang.
    """
    stores = ZooKeeperOffsetStores("127.0.0.1:1")
    config = SpoutConfig(KafkaHosts(), "sentences", "", "words")
    store = stores.open(config, context(config))
    assert store.acquire(P0) is Ownership.WAITING
    assert store.problem() is None
    eventually(lambda: store.problem() is not None, 20)
    assert "ZooKeeper at 127.0.0.1:1 cannot be reached" in str(store.problem())
    store.close()
    stores.close()


@pytest.mark.slow
def test_malformed_address_is_rejected(world: World) -> None:
    with pytest.raises(ConfigError, match="connect string 'host:port' is malformed"):
        ZooKeeperOffsetStores("host:port").open(world.config, world.context)


@pytest.mark.slow
def test_foreign_node_is_not_overwritten(world: World, eventually: Eventually) -> None:
    """The error names the node."""
    world.client.create(world.node, b"theirs", makepath=True)
    store = world.held(eventually)
    with pytest.raises(ConfigError, match=rf"{world.node} holds b'theirs'"):
        store.load(P0)
    assert world.client.get(world.node)[0] == b"theirs"
