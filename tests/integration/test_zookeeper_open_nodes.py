"""With a login, kstorm's nodes in ZooKeeper belong to the login, and nodes that everyone may change
have no effect.

The login is a digest, on a ZooKeeper with open access.
"""

from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.kafka.ports import Ownership
from kstorm.runtime.zookeeper.client import make_client
from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsetStores
from kstorm.runtime.zookeeper.topology_nodes import (
    ROOT,
    SpoutReport,
    deactivated_path,
    report_path,
    spouts_path,
    topology_path,
)
from kstorm.runtime.zookeeper.topology_watch import TopologyWatch
from tests.conftest import Eventually
from tests.integration.conftest import RunTopology
from tests.integration.engine import Engine
from tests.integration.test_zookeeper_offsets import P0, SESSION_SECS, World, save

LOGIN = "digest:her:secret"
REPORT = SpoutReport("lines", "lines-0", True, 0, 0, 30.0)


class Place:
    """A separate chroot, with a client without a login and one with our login."""

    def __init__(self, zookeeper: str, chroot: str) -> None:
        self.connect = f"{zookeeper}/{chroot}"
        above = KazooClient(zookeeper)
        above.start(30)
        above.create(f"/{chroot}")
        above.stop()
        above.close()
        self.stranger = KazooClient(self.connect)
        self.own = make_client(self.connect, 10.0, LOGIN)
        for client in (self.stranger, self.own):
            client.start(30)
        self.watches: list[TopologyWatch] = []

    def watch(self, login: str = LOGIN) -> TopologyWatch:
        """Return the watch of a spout's process, for the topology `words`."""
        made = TopologyWatch(self.connect, login, "words")
        made.tell(REPORT)
        made.start()
        self.watches.append(made)
        return made

    def close(self) -> None:
        for watch in self.watches:
            watch.close()
        for client in (self.stranger, self.own):
            client.stop()
            client.close()


@pytest.fixture
def place(zookeeper: EmbeddedZooKeeper, topic_prefix: str) -> Iterator[Place]:
    made = Place(zookeeper.connect, topic_prefix)
    yield made
    made.close()


def test_nodes_of_a_spout_belong_to_its_login(place: Place, eventually: Eventually) -> None:
    """Others may create topologies there, but cannot change the root node or its ACL."""
    watch = place.watch()
    eventually(lambda: place.own.exists(report_path("words", REPORT)), 20)
    for path in (topology_path("words"), spouts_path("words"), report_path("words", REPORT)):
        acl, _ = place.own.get_acls(path)
        assert [(entry.acl_list, entry.id.scheme) for entry in acl] == [(["ALL"], "digest")]
    changes: list[Callable[[], object]] = [
        lambda: place.stranger.create(deactivated_path("words")),
        lambda: place.stranger.delete(spouts_path("words")),
        lambda: place.stranger.set(ROOT, b"mine"),
        lambda: place.stranger.set_acls(ROOT, OPEN_ACL_UNSAFE),
    ]
    for change in changes:
        with pytest.raises(NoAuthError):
            change()
    place.stranger.create(topology_path("theirs"))
    place.stranger.delete(topology_path("theirs"))
    assert (watch.active, watch.problem, watch.not_ready) == (True, "", "")


def test_node_with_open_access_has_no_effect(place: Place, eventually: Eventually) -> None:
    """The topology keeps its state, here active.

    The process is not ready, and names the node and the remedy until it is fixed.
    """
    place.stranger.create(deactivated_path("words"), b"by a stranger", makepath=True)
    watch = place.watch()
    eventually(lambda: watch.not_ready, 20)
    assert watch.not_ready == (
        f"ZooKeeper at {place.connect} lets everyone change /kstorm-topologies/words, so processes "
        "with a login ignore this node: give it "
        "to the user 'her' (zkCli.sh, with that login: `setAcl -R /kstorm-topologies/words auth::cdrwa`), or delete it while none "
        "of its spouts runs"
    )
    eventually(lambda: watch.active, 10)
    assert place.own.exists(report_path("words", REPORT)) is None
    place.own.set_acls(topology_path("words"), CREATOR_ALL_ACL)
    eventually(lambda: "/kstorm-topologies/words/deactivated" in watch.not_ready, 20)
    place.own.delete(deactivated_path("words"))
    eventually(lambda: watch.not_ready == "" and place.own.exists(report_path("words", REPORT)), 20)
    place.own.create(deactivated_path("words"))
    eventually(lambda: watch.remark == "deactivated", 20)
    assert watch.not_ready == ""


@pytest.mark.slow
def test_topology_of_another_user_has_no_effect(place: Place, eventually: Eventually) -> None:
    """Only that user may change it, but the node does not belong to our login."""
    place.stranger.create(deactivated_path("words"), b"by a stranger", makepath=True)
    acl = [make_digest_acl("him", "other", all=True), make_acl("world", "anyone", read=True)]
    for path in (deactivated_path("words"), topology_path("words")):
        place.stranger.set_acls(path, acl)
    watch = place.watch()
    eventually(lambda: "the user 'her' may not use" in watch.problem, 20)
    eventually(lambda: watch.active, 10)
    assert watch.remark == ""


@pytest.mark.slow
def test_without_a_login_every_node_is_effective(place: Place, eventually: Eventually) -> None:
    """Without logins ZooKeeper cannot distinguish users."""
    place.stranger.create(deactivated_path("words"), b"by a stranger", makepath=True)
    watch = place.watch("")
    eventually(lambda: watch.remark == "deactivated", 20)
    assert (watch.active, watch.problem, watch.not_ready) == (False, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("which", ["node", "folder"])
def test_offset_with_open_access_is_not_read(
    zookeeper: EmbeddedZooKeeper, topic_prefix: str, eventually: Eventually, which: str
) -> None:
    """It was stored without a login, for example. It is read when it belongs to the login."""
    world = World(zookeeper.connect, topic_prefix)
    own = make_client(zookeeper.connect, 10.0, LOGIN)
    own.start(30)
    try:
        save(world.held(eventually), 7)
        world.processes.pop().close()
        folder = world.config.zk_path
        left, given = (world.node, folder) if which == "node" else (folder, world.node)
        own.set_acls(given, CREATOR_ALL_ACL)
        world.processes.append(ZooKeeperOffsetStores(zookeeper.connect, SESSION_SECS, LOGIN))
        store = world.store(world.processes[-1])
        store.acquire(P0)
        eventually(store.problem, 20)
        assert f"lets everyone change {left}, so processes with a login ignore this node" in str(
            store.problem()
        )
        assert store.acquire(P0) is Ownership.WAITING
        own.set_acls(left, CREATOR_ALL_ACL)
        eventually(lambda: store.acquire(P0) is Ownership.HELD, 20)
        assert store.stored_offset(P0) == 7
        eventually(lambda: store.problem() is None, 20)
    finally:
        own.stop()
        own.close()
        world.close()


@pytest.fixture
def engine(run_topology: RunTopology, place: Place) -> Iterator[Engine]:
    """The word count with a login."""
    settings = {"KSTORM_ZOOKEEPER": place.connect, "KSTORM_ZOOKEEPER_AUTH": LOGIN}
    with run_topology("wordcount", settings=settings) as found:
        yield found


@pytest.mark.slow
def test_spout_with_an_open_node_is_not_ready(engine: Engine, place: Place) -> None:
    """It continues to emit, and is ready when the node belongs to its user."""
    name = engine.processes.topology.name
    place.own.set_acls(topology_path(name), OPEN_ACL_UNSAFE)

    def status(what: str) -> object:
        return (engine.worker("sentences-0").status() or {}).get(what)

    told = f"lets everyone change {topology_path(name)}, so processes with a login ignore"
    engine.until(
        lambda: told in str(status("not_ready")), 60, "the spout says that it does not obey"
    )
    place.stranger.create(deactivated_path(name), b"by a stranger")
    engine.produce(["the cow", "the moon"])
    engine.until(lambda: engine.total("sentences", "acked") == 2, 60, "it emits")
    assert status("active") is True
    place.stranger.delete(deactivated_path(name))
    place.own.set_acls(topology_path(name), CREATOR_ALL_ACL)
    engine.until(lambda: status("not_ready") == "", 60, "it is ready again")
