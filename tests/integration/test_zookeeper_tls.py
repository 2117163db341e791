"""TLS to a real ZooKeeper that requires client certificates: a topology runs, and each possible
error is reported."""

import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.errors import BrokerError, ConfigError, KstormError
from kstorm.kafka import StaticHosts, ZkHosts
from kstorm.kafka.ports import Ownership
from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls
from kstorm.runtime.zookeeper.client import make_client, open_client
from kstorm.runtime.zookeeper.nodes import open_nodes
from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsetStores
from kstorm.runtime.zookeeper.registered_brokers import DynamicBrokersReader
from tests.conftest import Eventually
from tests.integration.certificates import Authority, locked_key
from tests.integration.engine import Engine, check_words, running
from tests.integration.service import assert_refused, start_service
from tests.integration.test_zookeeper_offsets import P0, SESSION_SECS, World, save
from tests.kstorm_command import says

KEY_PASSWORD = "key-Pa55"
USER, LOGIN_PASSWORD = "kstorm", "login-Pa55"


class Servers:
    """A ZooKeeper that requires client certificates, one with a certificate for another host, and
    the clients' files."""

    def __init__(self, directory: Path) -> None:
        files = directory / "zookeeper-tls"
        authority, stranger = Authority(files, "authority"), Authority(files, "stranger")
        self.ca, self.another_ca = str(authority.certificate), str(stranger.certificate)
        self.certificate, self.strange = (
            str(authority.sign("client")),
            str(stranger.sign("stranger")),
        )
        self.strict = EmbeddedZooKeeper(
            directory,
            name="strict-tls",
            logins={USER: LOGIN_PASSWORD},
            certificate=authority.sign("server"),
            authority=authority.certificate,
        )
        elsewhere = authority.sign("elsewhere", of="DNS:zookeeper.example.com")
        self.elsewhere = EmbeddedZooKeeper(directory, name="elsewhere-tls", certificate=elsewhere)
        self.tls = ZooKeeperTls(ca=self.ca, certfile=self.certificate)


@pytest.fixture(scope="module")
def servers(servers_directory: Path) -> Iterator[Servers]:
    """Both servers for this module."""
    made = Servers(servers_directory)
    with made.strict, made.elsewhere:
        yield made


@pytest.fixture
def world(servers: Servers, topic_prefix: str) -> Iterator[World]:
    """A separate place in the strict server, and a client without TLS."""
    made = World(servers.strict.connect, topic_prefix)
    yield made
    made.close()


def process(
    world: World, connect: str, tls: ZooKeeperTls | None, auth: str = ""
) -> ZooKeeperOffsetStores:
    """Return a process with this connection, which is closed at the end."""
    world.processes.append(ZooKeeperOffsetStores(connect, SESSION_SECS, auth, tls=tls))
    return world.processes[-1]


@pytest.mark.slow
def test_topology_runs_with_tls(
    kafka: EmbeddedKafka,
    servers: Servers,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The spout's key has a password. It stores its offset and resumes there later. So do the
    commands.

    A spout that trusts another authority reports it and is not ready.
    """
    password = tmp_path / "password"
    password.write_text(f"{KEY_PASSWORD}\n")
    key = locked_key(servers.certificate, KEY_PASSWORD, tmp_path / "client.key")
    tls = {
        "ca": servers.ca,
        "certfile": servers.certificate,
        "keyfile": str(key),
        "keyfile_password_file": str(password),
    }
    settings = {
        "KSTORM_ZOOKEEPER": servers.strict.secure,
        "KSTORM_ZOOKEEPER_TLS": json.dumps(tls),
        "KSTORM_LOG_LEVEL": "DEBUG",
    }
    text = [f"one two w{number % 7}" for number in range(300)]
    with running(
        "wordcount", topic_prefix, kafka, servers.strict, tmp_path, monkeypatch, settings=settings
    ) as engine:
        engine.produce(text)
        engine.await_done("sentences")
        processes = engine.processes
        processes.scale("sentences", 0)
        processes.scale("sentences", 1)
        engine.produce(text)
        engine.await_done("sentences")
        check_words(engine, text * 2)
        assert engine.total("sentences", "acked") == len(text)

        monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", kafka.bootstrap)
        topology = "tests.integration.topologies:wordcount"
        shown = says(capsys, "offsets", "show", "--topology", topology)
        assert re.search(r"│ +100 │ +0 │ +100 │", shown), shown
        assert "is drained" in says(capsys, "drain", processes.topology.name)
        assert "is active" in says(capsys, "activate", processes.topology.name)

        processes.scale("sentences", 0)
        processes.environment = settings | {
            "KSTORM_ZOOKEEPER_TLS": json.dumps(tls | {"ca": servers.another_ca})
        }
        processes.scale("sentences", 1)
        engine.until(
            lambda: "is not trusted" in not_ready(engine),
            60,
            "the spout says that it does not trust it",
        )
        for part in (
            servers.strict.secure,
            "unable to get local issuer certificate",
            servers.another_ca,
            "KSTORM_ZOOKEEPER_TLS",
        ):
            assert part in not_ready(engine)

        def logs() -> str:
            return "".join(worker.process.log_path.read_text() for worker in processes.workers)

        engine.until(lambda: "its certificate is not trusted" in logs(), 30, "it is in the log")
        assert logs().count("its certificate is not trusted") <= 3  # two tasks, and the watch
        assert KEY_PASSWORD not in logs() + json.dumps(processes.statuses())
        processes.environment = settings


def not_ready(engine: Engine) -> str:
    """Return the reason why the spout's process is not ready."""
    status = engine.processes.of("sentences")[0].status()
    return "" if status is None else str(status["not_ready"])


@dataclass(frozen=True)
class Wrong:
    """An error: the address, the TLS settings and the expected message."""

    where: Callable[[Servers], str]
    tls: Callable[[Servers], ZooKeeperTls | None]
    says: tuple[str, ...]


WRONG = {
    "another authority": Wrong(
        lambda at: at.strict.secure,
        lambda at: ZooKeeperTls(ca=at.another_ca, certfile=at.certificate),
        (
            "its certificate is not trusted: unable to get local issuer certificate",
            "stranger.crt' of KSTORM_ZOOKEEPER_TLS",
        ),
    ),
    "the system's authorities": Wrong(
        lambda at: at.strict.secure,
        lambda at: ZooKeeperTls(certfile=at.certificate),
        (
            "its certificate is not trusted",
            "the authorities of the system, because KSTORM_ZOOKEEPER_TLS has no ca",
        ),
    ),
    "another name": Wrong(
        lambda at: at.elsewhere.secure,
        lambda at: ZooKeeperTls(ca=at.ca),
        (
            "its certificate is for another name: IP address mismatch",
            "'127.0.0.1'; use the name in its certificate",
        ),
    ),
    "no certificate": Wrong(
        lambda at: at.strict.secure,
        lambda at: ZooKeeperTls(ca=at.ca),
        (
            "it requires a client certificate (",
            "give one as certfile and keyfile in KSTORM_ZOOKEEPER_TLS",
        ),
    ),
    "a stranger's certificate": Wrong(
        lambda at: at.strict.secure,
        lambda at: ZooKeeperTls(ca=at.ca, certfile=at.strange),
        (
            "it does not accept the certificate '",
            "stranger-stranger.pem' (certificate unknown)",
            "ssl.trustStore",
        ),
    ),
    "a port without TLS": Wrong(
        lambda at: at.strict.connect,
        lambda at: at.tls,
        (
            "it does not use TLS at that port: give its secureClientPort, or leave KSTORM_ZOOKEEPER_TLS out",
        ),
    ),
    "a port with TLS": Wrong(
        lambda at: at.strict.secure,
        lambda _: None,
        ("it uses TLS at that port: set KSTORM_ZOOKEEPER_TLS, or give a port without TLS",),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_tls_error_is_reported(
    servers: Servers, world: World, wrong: Wrong, eventually: Eventually
) -> None:
    """A spout reports it while it waits for its lock, and a command within its timeout.

    It is one line with the address and the remedy.
    """
    where, tls = wrong.where(servers), wrong.tls(servers)
    store = world.store(process(world, where, tls))
    assert store.acquire(P0) is Ownership.WAITING
    eventually(lambda: "cannot be used" in str(store.problem()), 20)
    assert store.acquire(P0) is Ownership.WAITING
    with pytest.raises(BrokerError) as caught, open_nodes(where, world.config.zk_path_of, "", tls):
        pass
    reader = DynamicBrokersReader(ZkHosts(where), tls=tls)
    with pytest.raises(BrokerError) as read:
        reader.get_broker_info("t")
    for told in (str(store.problem()), str(caught.value), str(read.value)):
        assert told.startswith(f"ZooKeeper at {where} cannot be used: ")
        assert "\n" not in told
        for part in wrong.says:
            assert part in told


@pytest.mark.parametrize("scheme", ["digest", "sasl"])
def test_login_works_with_a_client_certificate(
    servers: Servers, world: World, scheme: str, eventually: Eventually
) -> None:
    """Nodes belong to the login and the certificate. Without a login they are open to all."""
    login = f"{scheme}:{USER}:{LOGIN_PASSWORD}"
    store = world.store(process(world, servers.strict.secure, servers.tls, login))
    eventually(lambda: store.acquire(P0) is Ownership.HELD, 20)
    save(store, 1)
    assert store.problem() is None
    with pytest.raises(NoAuthError):
        world.client.get(world.node)
    for tls in (servers.tls, None):
        with open_client(
            servers.strict.secure if tls else servers.strict.connect, login, tls
        ) as client:
            acl, _ = client.get_acls(world.node)
            assert {entry.id.scheme for entry in acl} == {scheme, "x509"}
    other = World(servers.strict.connect, f"{world.config.zk_root[1:]}-open")
    store = other.store(process(other, servers.strict.secure, servers.tls))
    eventually(lambda: store.acquire(P0) is Ownership.HELD, 20)
    acl, _ = other.client.get_acls(other.node)
    assert [(entry.acl_list, entry.id.scheme) for entry in acl] == [(["ALL"], "world")]
    other.close()


@pytest.mark.slow
def test_failing_server_is_named(servers: Servers, world: World) -> None:
    where = f"{servers.elsewhere.connect},{servers.elsewhere.secure}"
    tls = ZooKeeperTls(ca=servers.ca)
    with (
        pytest.raises(
            BrokerError, match=rf"does not use TLS .*\(this concerns {servers.elsewhere.connect}\)$"
        ),
        open_nodes(where, world.config.zk_path_of, "", tls),
    ):
        pass


@pytest.mark.slow
def test_hostname_check_can_be_disabled(servers: Servers, world: World) -> None:
    """The certificate must still be trusted."""
    tls = ZooKeeperTls(ca=servers.ca, check_hostname=False)
    with open_nodes(servers.elsewhere.secure, world.config.zk_path_of, "", tls) as nodes:
        assert nodes.read(P0).stored is None
    tls = ZooKeeperTls(ca=servers.another_ca, check_hostname=False)
    with (
        pytest.raises(BrokerError, match="is not trusted"),
        open_nodes(servers.elsewhere.secure, world.config.zk_path_of, "", tls),
    ):
        pass


@pytest.mark.slow
def test_named_ca_replaces_the_system_authorities(
    servers: Servers, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with a certificate of a public authority is not ours.

    Without `ca` the system's authorities count.
    """
    monkeypatch.setenv("SSL_CERT_FILE", servers.ca)
    tls = ZooKeeperTls(certfile=servers.certificate)
    with open_nodes(servers.strict.secure, world.config.zk_path_of, "", tls) as nodes:
        assert nodes.read(P0).stored is None
    tls = ZooKeeperTls(ca=servers.another_ca, certfile=servers.certificate)
    with (
        pytest.raises(BrokerError, match="is not trusted"),
        open_nodes(servers.strict.secure, world.config.zk_path_of, "", tls),
    ):
        pass


@pytest.mark.slow
def test_missing_file_ends_the_start(servers: Servers, tmp_path: Path) -> None:
    """The error is one line with the file."""
    tls = {"ca": servers.ca, "certfile": "/etc/zookeeper/missing.crt"}
    ended = start_service(
        "spout",
        tmp_path,
        KSTORM_COMPONENT="sentences",
        KSTORM_ZOOKEEPER=servers.strict.secure,
        KSTORM_ZOOKEEPER_TLS=json.dumps(tls),
    )
    assert_refused(
        ended,
        "KSTORM_ZOOKEEPER_TLS has certfile '/etc/zookeeper/missing.crt', which cannot be used: No such file or directory",
    )
    assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr


@pytest.mark.slow
def test_files_are_read_for_each_connection(
    servers: Servers, world: World, tmp_path: Path, eventually: Eventually
) -> None:
    """So a renewed certificate needs no restart.

    A missing one is reported, and the work continues when it is back.
    """
    certificate = tmp_path / "client.pem"
    certificate.write_text(Path(servers.certificate).read_text())
    store = world.store(
        process(
            world, servers.strict.secure, ZooKeeperTls(ca=servers.ca, certfile=str(certificate))
        )
    )
    eventually(lambda: store.acquire(P0) is Ownership.HELD, 20)
    save(store, 1)
    certificate.unlink()
    servers.strict.restart()
    eventually(
        lambda: (
            f"certfile '{certificate}', which cannot be used: No such file" in str(store.problem())
        ),
        30,
    )
    certificate.write_text(Path(servers.certificate).read_text())
    save(store, 2)
    assert store.problem() is None


@pytest.mark.slow
def test_brokers_are_found_through_tls(servers: Servers, topic_prefix: str) -> None:
    """A process with TLS can also use a ZooKeeper without it, if its hosts are configured so."""
    registered = {
        "/brokers/ids/1": {"host": "kafka-1", "port": 9092, "endpoints": []},
        "/brokers/topics/lines": {"partitions": {"0": [1]}},
        "/brokers/topics/lines/partitions/0/state": {"leader": 1},
    }
    client = KazooClient(servers.strict.connect)
    client.start(30)
    for path, content in registered.items():
        client.create(f"/{topic_prefix}{path}", json.dumps(content).encode(), makepath=True)
    client.stop()
    client.close()
    for hosts in (
        ZkHosts(f"{servers.strict.secure}/{topic_prefix}"),
        ZkHosts(f"{servers.strict.connect}/{topic_prefix}", tls=False),
    ):
        (information,) = DynamicBrokersReader(hosts, tls=servers.tls).get_broker_info("lines")
        assert StaticHosts(information).bootstrap_servers == "kafka-1:9092"


@pytest.mark.slow
def test_select_finds_data_buffered_by_tls(servers: Servers) -> None:
    """One TLS record may have two answers. The second is buffered, and the socket is empty."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(servers.certificate)
    here, there = socket.socketpair()
    client = make_client("127.0.0.1:1", 10.0, "", servers.tls)
    trusting = servers.tls.context()
    trusting.check_hostname = False
    far: list[ssl.SSLSocket] = []
    handler = client.handler
    worker = handler.spawn(lambda: far.append(context.wrap_socket(there, server_side=True)))
    near = trusting.wrap_socket(here)
    worker.join(10)
    far[0].sendall(b"onetwo")
    assert near.recv(3) == b"one"
    assert handler.select([near], [], [], 5.0) == ([near], [], [])
    assert near.recv(3) == b"two"
    assert handler.select([near], [], [], 0.05) == ([], [], [])
    near.close()
    far[0].close()


@pytest.mark.slow
def test_invalid_certificate_file_is_named(servers: Servers, tmp_path: Path) -> None:
    """No password prompt appears on the terminal."""
    words, password = tmp_path / "words", tmp_path / "password"
    words.write_text("no certificate\n")
    password.write_text("wrong-Pa55\n")
    locked = locked_key(servers.certificate, "right-Pa55", tmp_path / "locked.key")
    of_client = {"ca": servers.ca, "certfile": servers.certificate}
    for given, error in (
        ({"ca": str(words)}, rf"ca '{words}', which cannot be used: it has no certificate in PEM"),
        ({"ca": str(tmp_path)}, rf"ca '{tmp_path}', which cannot be used: Is a directory"),
        (
            {"certfile": str(words)},
            rf"certfile '{words}', which cannot be used: with the key in it \(.*are both in PEM",
        ),
        (
            of_client | {"keyfile": servers.strange[:-3] + "key"},
            r"KEY_VALUES_MISMATCH.*do they belong together",
        ),
        (
            of_client | {"keyfile": str(locked)},
            rf"keyfile '{locked}', .*its key has a password: name a file",
        ),
        (
            of_client | {"keyfile": str(locked), "keyfile_password_file": str(password)},
            "is keyfile_password_file right",
        ),
        (
            of_client | {"keyfile_password_file": "/no/such/file"},
            "keyfile_password_file '/no/such/file', .*No such file",
        ),
    ):
        with pytest.raises(ConfigError, match=error) as caught:
            msgspec.convert(given, ZooKeeperTls).context()
        assert isinstance(caught.value, KstormError)
        assert "wrong-Pa55" not in str(caught.value)
        assert str(caught.value).startswith("KSTORM_ZOOKEEPER_TLS has ")
