"""ZooKeeper's SASL login (DIGEST-MD5) on a real server with users: accepted, rejected, and accepted
later."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import CREATOR_ALL_ACL

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.errors import BrokerError
from kstorm.kafka.ports import Ownership
from kstorm.runtime.zookeeper.client import make_client
from kstorm.runtime.zookeeper.nodes import open_nodes
from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsetStores
from kstorm.runtime.zookeeper.topology_nodes import deactivated_path, topology_path
from kstorm.runtime.zookeeper.topology_watch import TopologyWatch
from tests.chaos.proxy import Proxy
from tests.conftest import Eventually
from tests.integration.test_zookeeper_offsets import P0, SESSION_SECS, World, save

USER, PASSWORD, WRONG = "kstorm", 'sasl-"Pa55;\\', "wrong-Pa55"
LOGIN = f"sasl:{USER}:{PASSWORD}"


@pytest.fixture(scope="module")
def strict(servers_directory: Path) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper with one user."""
    with EmbeddedZooKeeper(servers_directory, name="strict", logins={USER: PASSWORD}) as server:
        yield server


@pytest.fixture
def world(strict: EmbeddedZooKeeper, topic_prefix: str) -> Iterator[World]:
    """A separate place in it, and a client without a login."""
    made = World(strict.connect, topic_prefix)
    yield made
    made.close()


def process(world: World, auth: str, connect: str = "") -> ZooKeeperOffsetStores:
    """Return a process with this login, which is closed at the end."""
    world.processes.append(ZooKeeperOffsetStores(connect or world.connect, SESSION_SECS, auth))
    return world.processes[-1]


def test_nodes_of_a_sasl_user_belong_to_it(
    world: World, strict: EmbeddedZooKeeper, eventually: Eventually
) -> None:
    """This holds for offsets and locks, and after a second login."""
    store = world.store(process(world, LOGIN))
    eventually(lambda: store.acquire(P0) is Ownership.HELD, 20)
    save(store, 1)
    knowing = make_client(world.connect, 10.0, LOGIN)
    knowing.start(30)
    for node in (world.node, world.lock):
        with pytest.raises(NoAuthError):
            world.client.get(node)
        acl, _ = knowing.get_acls(node)
        assert [(entry.acl_list, entry.id.scheme, entry.id.id) for entry in acl] == [
            (["ALL"], "sasl", USER)
        ]
    strict.restart()
    save(store, 2)
    assert b'"offset":2' in knowing.retry(knowing.get, world.node)[0]
    knowing.stop()
    knowing.close()


@pytest.mark.slow
def test_wrong_sasl_password_is_reported_and_retried(
    world: World,
    strict: EmbeddedZooKeeper,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The report has the user's name but not the password, at most once per second.

    When the server accepts the login, the work starts.
    """
    with EmbeddedZooKeeper(tmp_path, logins={USER: WRONG}) as behind, Proxy() as way:
        way.target = int(behind.connect.rpartition(":")[2])
        store = world.store(process(world, LOGIN, way.address))
        assert store.acquire(P0) is Ownership.WAITING

        def refusals() -> int:
            return behind.log_path.read_text().count("failed to SASL authenticate")

        begun = time.monotonic()
        eventually(lambda: refusals() >= 4, 20)
        assert time.monotonic() - begun > 2
        told = str(store.problem())
        assert (
            f"ZooKeeper at {way.address} refuses: the user '{USER}' has no access: check the user"
            in told
        )
        assert store.acquire(P0) is Ownership.WAITING
        assert PASSWORD not in told + caplog.text
        way.target = int(strict.connect.rpartition(":")[2])
        eventually(lambda: store.acquire(P0) is Ownership.HELD, 20)
        save(store, 1)
        assert store.problem() is None
        world.processes.pop().close()


@pytest.mark.slow
def test_topology_is_watched_after_its_login_succeeds(
    strict: EmbeddedZooKeeper, topic_prefix: str, tmp_path: Path, eventually: Eventually
) -> None:
    """Until then the watch has a problem. Then `deactivate` takes effect."""
    knowing = make_client(strict.connect, 10.0, LOGIN)
    knowing.start(30)
    knowing.create(deactivated_path(topic_prefix), b"by hand", makepath=True)
    with EmbeddedZooKeeper(tmp_path, logins={USER: WRONG}) as behind, Proxy() as way:
        way.target = int(behind.connect.rpartition(":")[2])
        watch = TopologyWatch(way.address, LOGIN, topic_prefix)
        watch.start()
        eventually(lambda: f"refuses: the user '{USER}' has no access" in watch.problem, 20)
        way.target = int(strict.connect.rpartition(":")[2])
        eventually(lambda: watch.remark == "deactivated", 20)
        eventually(lambda: watch.problem == "", 20)
        watch.close()
    knowing.stop()
    knowing.close()


@pytest.mark.slow
def test_with_a_sasl_login_an_open_node_has_no_effect(
    world: World, topic_prefix: str, eventually: Eventually
) -> None:
    """The process is not ready, and names the node until it belongs to the login."""
    connect = f"{world.connect}/{topic_prefix}"
    knowing = make_client(connect, 10.0, LOGIN)
    world.client.create(
        f"/{topic_prefix}{deactivated_path('words')}", b"by a stranger", makepath=True
    )
    watch = TopologyWatch(connect, LOGIN, "words")
    watch.start()
    eventually(lambda: watch.not_ready, 20)
    assert (
        f"ZooKeeper at {connect} lets everyone change {topology_path('words')}, so"
        in watch.not_ready
    )
    assert (
        f"the user '{USER}' (zkCli.sh, with that login: `setAcl -R {topology_path('words')} auth"
        in watch.not_ready
    )
    eventually(lambda: watch.active, 10)
    knowing.start(30)
    knowing.retry(knowing.set_acls, topology_path("words"), CREATOR_ALL_ACL)
    eventually(lambda: deactivated_path("words") in watch.not_ready, 20)
    knowing.retry(knowing.set_acls, deactivated_path("words"), CREATOR_ALL_ACL)
    eventually(lambda: watch.not_ready == "" and watch.remark == "deactivated", 20)
    watch.close()
    knowing.stop()
    knowing.close()


@pytest.mark.slow
def test_command_reports_the_rejected_login(world: World) -> None:
    """The error is one line, and comes at once."""
    with (
        pytest.raises(
            BrokerError,
            match=f"ZooKeeper at {world.connect} refuses: the user '{USER}' has no access",
        ),
        open_nodes(world.connect, world.config.zk_path_of, f"sasl:{USER}:{WRONG}"),
    ):
        pass
    with open_nodes(world.connect, world.config.zk_path_of, LOGIN) as nodes:
        assert nodes.read(P0).stored is None
