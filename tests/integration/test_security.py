"""TLS, SCRAM-SHA-512 logins and ZooKeeper's digest: all clients use them, and each rejection is
reported once."""

import asyncio
import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import CREATOR_ALL_ACL

from kstorm.cli.__main__ import main
from kstorm.core.engine import Unit
from kstorm.core.engine.effects import Transact
from kstorm.core.outgoing import OutgoingRecord
from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.errors import BrokerError
from kstorm.kafka import KafkaHosts, SpoutConfig
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.producer import UnitProducer
from kstorm.runtime.kafka.source import KafkaSource
from tests.integration import topologies
from tests.integration.engine import Engine, check_words, make_topics, running
from tests.integration.secured import PASSWORD, STRANGER, USER, Secured
from tests.integration.service import assert_refused, start_service
from tests.integration.test_fencing import committed, process

ZOOKEEPER_PASSWORD, WRONG = "digest-Pa55", "wrong-Pa55"
LOGIN = f"digest:{USER}:{ZOOKEEPER_PASSWORD}"


@pytest.fixture(scope="module")
def secured(servers_directory: Path) -> Iterator[Secured]:
    """A secured Kafka for this module."""
    made = Secured(servers_directory)
    with made.kafka:
        yield made


@pytest.fixture(scope="module")
def zookeeper(servers_directory: Path) -> Iterator[EmbeddedZooKeeper]:
    """A separate ZooKeeper for this module.

    The first login that creates the node `/kstorm` locks out all others.
    """
    with EmbeddedZooKeeper(servers_directory, name="locked") as server:
        yield server


def said(engine: Engine) -> str:
    """Return everything that the services print or serve."""
    found = []
    for worker in engine.processes.workers:
        found.append(worker.process.log_path.read_text())
        found.append(" ".join(psutil.Process(worker.process.pid).cmdline()))
        for page in ("status", "metrics", "readyz"):
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{worker.web_port}/{page}", timeout=5
                ) as answer:
                    found.append(answer.read().decode())
            except urllib.error.HTTPError as error:
                found.append(error.read().decode())
    return "\n".join(found)


def test_topology_runs_with_tls_and_logins(
    secured: Secured,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of its clients use this listener only, with the documented rights. The password comes
    from a file.

    With a wrong ZooKeeper password the spout reports it, is not ready, and retries slowly.
    """
    secured.allow(topic_prefix)
    public = secured.properties()
    file = tmp_path / "secret.json"
    file.write_text(json.dumps({"sasl.password": public.pop("sasl.password")}))
    settings = {
        "KSTORM_KAFKA_PROPERTIES": json.dumps(public),
        "KSTORM_KAFKA_PROPERTIES_FILE": str(file),
        "KSTORM_ZOOKEEPER_AUTH": LOGIN,
        "KSTORM_LOG_LEVEL": "DEBUG",
    }
    text = [f"one two w{number % 7}" for number in range(600)]
    with running(
        "own_producer",
        topic_prefix,
        secured.kafka,
        zookeeper,
        tmp_path,
        monkeypatch,
        bootstrap=secured.kafka.secure("valid"),
        settings=settings,
    ) as engine:
        engine.produce(text)
        engine.await_done("sentences")
        check_words(engine, text)
        assert engine.total("sentences", "acked") == 600
        assert secured.kafka.bootstrap not in said(engine)

        processes = engine.processes
        processes.scale("sentences", 0)
        processes.environment = {**settings, "KSTORM_ZOOKEEPER_AUTH": f"digest:{USER}:{WRONG}"}
        processes.scale("sentences", 1)
        engine.until(
            lambda: "may not use" in str(_not_ready(engine)), 60, "the spout says that it may not"
        )
        problem = _not_ready(engine)
        for part in (
            zookeeper.connect,
            f"'{USER}'",
            f"/kstorm/{topic_prefix}",
            "KSTORM_ZOOKEEPER_AUTH",
        ):
            assert part in problem
        time.sleep(3)  # long enough to detect a storm of retries
        assert (
            processes.of("sentences")[0].process.log_path.read_text().count("may not use") <= 3
        )  # two tasks, and the watch
        everything = said(engine)
        for secret in (PASSWORD, ZOOKEEPER_PASSWORD, WRONG):
            assert secret not in everything
        processes.environment = settings


def _not_ready(engine: Engine) -> str:
    status = engine.processes.of("sentences")[0].status()
    return "" if status is None else status["not_ready"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listener", "changes", "says"),
    [
        (
            "valid",
            {"sasl_password": WRONG},
            ["SCRAM-SHA-512 as user 'kstorm'", "invalid credentials", "sasl.password"],
        ),
        (
            "valid",
            {"sasl_mechanism": "PLAIN"},
            ["PLAIN as user 'kstorm'", "SCRAM-SHA-512", "sasl.mechanism"],
        ),
        (
            "valid",
            {"ssl_ca_location": "stranger"},
            ["is not trusted: unable to get local issuer", "ssl.ca.location"],
        ),
        ("expired", {}, ["its certificate is not trusted: certificate has expired"]),
    ],
    ids=["wrong password", "wrong mechanism", "unknown authority", "expired certificate"],
)
def test_rejected_connection_ends_the_start(
    secured: Secured, tmp_path: Path, listener: str, changes: dict[str, str], says: list[str]
) -> None:
    """After a few attempts there is one line with the address, the user and the remedy, without a
    secret."""
    if "ssl_ca_location" in changes:
        changes = {"ssl_ca_location": str(secured.stranger.certificate)}
    before, address = secured.refusals(), secured.kafka.secure(listener)
    started = time.monotonic()
    ended = start_service(
        "bolt",
        tmp_path,
        KSTORM_COMPONENT="split",
        KSTORM_BOOTSTRAP_SERVERS=address,
        KSTORM_KAFKA_PROPERTIES=json.dumps(secured.properties(**changes)),
        KSTORM_LOG_LEVEL="DEBUG",
    )
    assert time.monotonic() - started < 60  # a service that retries forever is ended after 120
    assert_refused(ended, address, "KSTORM_KAFKA_PROPERTIES", *says)
    assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr
    assert ended.stdout == ""
    assert 1 <= secured.refusals() - before <= 6
    for secret in (PASSWORD, WRONG):
        assert secret not in ended.stderr


@pytest.mark.slow
def test_missing_right_is_named(secured: Secured, topic_prefix: str, tmp_path: Path) -> None:
    """The login succeeds. The error names the first forbidden operation."""
    ended = start_service(
        "bolt",
        tmp_path,
        KSTORM_TEST_PREFIX=topic_prefix,
        KSTORM_COMPONENT="split",
        KSTORM_BOOTSTRAP_SERVERS=secured.kafka.secure("valid"),
        KSTORM_KAFKA_PROPERTIES=json.dumps(secured.properties(sasl_username=STRANGER)),
    )
    assert_refused(ended, f"did not create the topic '{topic_prefix}.", "Authorization failed")


@pytest.mark.slow
def test_missing_right_for_transactions_is_named(
    secured: Secured,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The service reports it at once.

    `kstorm prepare` only reports that it did not try, because its user may differ.
    """
    secured.allow(topic_prefix, transactions=False)
    environment = {
        "KSTORM_TOPOLOGY": "tests.integration.topologies:wordcount",
        "KSTORM_TEST_PREFIX": topic_prefix,
        "KSTORM_TEST_GUARANTEE": "exactly_once",
        "KSTORM_BOOTSTRAP_SERVERS": secured.kafka.secure("valid"),
        "KSTORM_KAFKA_PROPERTIES": json.dumps(secured.properties()),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as prepared:
        main(["prepare", "--allow-missing-ends"])
    assert prepared.value.code == 0
    assert (
        f"not checked whether Kafka allows transactions: Kafka at {secured.kafka.secure('valid')}"
        in capsys.readouterr().out
    )
    started = time.monotonic()
    ended = start_service(
        "bolt", tmp_path, KSTORM_COMPONENT="split", KSTORM_INSTANCE="split-0", **environment
    )
    assert time.monotonic() - started < 60
    assert ended.returncode == 2
    assert "Traceback" not in ended.stdout + ended.stderr
    last = ended.stdout.strip().splitlines()[-1]
    assert f"did not accept the transactional id '{topic_prefix}.split-split-0'" in last
    assert "allow this user WRITE on the transactional ids of its topology" in last


@pytest.mark.slow
async def test_topic_without_write_access_ends_an_exactly_once_process(
    secured: Secured, topic_prefix: str
) -> None:
    """An operator can grant the right, so no tuple is given up, and the epoch is not written."""
    secured.allow(topic_prefix)
    name, _, _ = topologies.names(topic_prefix)
    read, changelog, sink = f"{name}.in", f"{name}.changelog", f"{topic_prefix}-forbidden"
    make_topics(secured.kafka.bootstrap, dict.fromkeys((read, changelog, sink), 1))
    login = {
        "bootstrap_servers": secured.kafka.secure("valid"),
        "kafka_properties": secured.properties(),
    }
    epoch = Transact({0: [(b"k", b"1")]}, {0: 5}, [OutgoingRecord(sink, 0, b"v", b"k", None, 7)])
    async with process(secured.kafka, read, "place", "name", **login) as writer:
        with pytest.raises(
            BrokerError,
            match=rf"the topic '{sink}' did not accept a record: .*allow this user WRITE on it",
        ):
            await writer.write(changelog, epoch)
    assert await asyncio.to_thread(committed, secured.kafka, changelog, read) == ([], -1001)


@pytest.mark.slow
def test_one_accepting_broker_is_enough(secured: Secured) -> None:
    addresses = f"{secured.kafka.secure('expired')},{secured.kafka.secure('valid')}"
    for _ in range(3):  # librdkafka starts with any of them
        settings = Settings(
            topology="unused", bootstrap_servers=addresses, kafka_properties=secured.properties()
        )
        assert isinstance(Admin(settings).partition_counts(), dict)


@pytest.mark.slow
def test_unknown_property_ends_the_start(tmp_path: Path) -> None:
    """The error shows whether the name comes from the file."""
    ended = start_service(
        "bolt",
        tmp_path,
        KSTORM_COMPONENT="split",
        KSTORM_KAFKA_PROPERTIES=json.dumps({"sasl.pasword": PASSWORD}),
    )
    assert_refused(ended, "KSTORM_KAFKA_PROPERTIES", '"sasl.pasword"')
    assert PASSWORD not in ended.stderr


@pytest.mark.slow
def test_revoked_login_causes_no_storm_of_retries(
    secured: Secured, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The client of a running service retries about twice per second, and logs every five seconds."""
    settings = Settings(
        topology="unused",
        bootstrap_servers=secured.kafka.secure("valid"),
        kafka_properties=secured.properties(sasl_password=WRONG),
    )
    before = secured.refusals()
    errors: list[Exception] = []
    producer = UnitProducer(settings, errors.append)
    producer.send(Unit(), [OutgoingRecord("topic", 0, b"value")])
    until = time.monotonic() + 6
    with caplog.at_level(logging.DEBUG):
        while time.monotonic() < until:
            producer.poll()
            time.sleep(0.05)
    assert 2 <= secured.refusals() - before <= 30
    assert 1 <= len(caplog.records) <= 3
    producer.client.purge()
    producer.poll()
    everything = (
        caplog.text + "".join(capfd.readouterr()) + "".join(map(str, errors)) + repr(settings)
    )
    assert WRONG not in everything


@pytest.mark.slow
def test_rejected_source_reader_is_reported_once(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    """The spout has wrong properties of its own."""
    config = SpoutConfig(
        KafkaHosts(secured.kafka.secure("valid")),
        "source",
        "/unused",
        "unused",
        kafka_properties=secured.properties(sasl_password=WRONG),
    )
    before = secured.refusals()
    source = KafkaSource(config, Settings(topology="unused").client_config)
    faults: list[str] = []
    until = time.monotonic() + 6
    try:
        while time.monotonic() < until:
            source.read(10)
            faults += [fault.reason for fault in source.faults()]
            time.sleep(0.05)
    finally:
        source.close()
    refused = [reason for reason in faults if "invalid credentials" in reason]
    assert len(refused) == 1
    assert len(faults) <= 2
    assert 2 <= secured.refusals() - before <= 40
    assert len(caplog.records) <= 3
    assert WRONG not in "".join(faults) + repr(config) + caplog.text


@pytest.mark.slow
def test_zookeeper_nodes_belong_to_the_login(
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    eventually: Callable[[Callable[[], object], float], None],
) -> None:
    """Another user is rejected, reports it, and retries a few times per second at most."""
    from kstorm.kafka.ports import Ownership
    from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsetStores
    from tests.integration.test_zookeeper_offsets import P0, World

    world = World(zookeeper.connect, topic_prefix)
    mine = ZooKeeperOffsetStores(zookeeper.connect, 2.0, LOGIN)
    other = ZooKeeperOffsetStores(zookeeper.connect, 2.0, f"digest:{USER}:{WRONG}")
    nobody = ZooKeeperOffsetStores(zookeeper.connect, 2.0)
    plain = KazooClient(zookeeper.connect)
    knowing = KazooClient(zookeeper.connect, auth_data=[("digest", LOGIN.removeprefix("digest:"))])
    try:
        store = mine.open(world.config, world.context)
        eventually(lambda: store.acquire(P0) is Ownership.HELD, 20)
        plain.start(30)
        knowing.start(30)
        with pytest.raises(NoAuthError):
            plain.get_children(f"/{topic_prefix}/words/locks")
        acl, _ = knowing.get_acls(f"/{topic_prefix}/words/locks/partition_0")
        assert [(entry.perms, entry.id.scheme) for entry in acl] == [
            (CREATOR_ALL_ACL[0].perms, "digest")
        ]
        for stores, who in ((other, f"the user '{USER}'"), (nobody, "a client without a login")):
            refused = stores.open(world.config, world.context)
            eventually(
                lambda refused=refused: (  # type: ignore[misc]
                    refused.acquire(P0) is Ownership.WAITING and refused.problem()
                ),
                20,
            )
            assert f"{who} may not use /{topic_prefix}/words/partition_0" in str(refused.problem())
            assert WRONG not in str(refused.problem())
        before = _received(plain)
        time.sleep(3)
        assert _received(plain) - before < 60
    finally:
        for client in (plain, knowing):
            client.stop()
            client.close()
        for stores in (mine, other, nobody):
            stores.close()
        world.client.stop()
        world.client.close()


def _received(client: KazooClient) -> int:
    """Return the number of packets that the server has received."""
    lines = client.command(b"srvr").splitlines()
    return int(next(line for line in lines if line.startswith("Received")).split()[1])
