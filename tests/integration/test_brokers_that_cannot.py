"""Brokers that cannot store transactions or group offsets: a service that needs them names the
setting and exits."""

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kstorm.cli.__main__ import main
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka import internal_topics, transactional_producer
from kstorm.runtime.kafka.topics import ensure_topics
from kstorm.runtime.kafka.transactional_producer import check_transactions
from kstorm.topology import Topology
from tests.conftest import Eventually
from tests.integration import topologies
from tests.integration.old_kafka import OldKafka
from tests.integration.service import start_service


@pytest.fixture
def topology(topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Topology:
    """A topology with exactly once."""
    monkeypatch.setenv("KSTORM_TEST_PREFIX", topic_prefix)
    monkeypatch.setenv("KSTORM_TEST_GUARANTEE", "exactly_once")
    return topologies.wordcount()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits of a service from a minute to seconds."""
    monkeypatch.setattr(transactional_producer, "_CALL_SECS", 2.0)
    monkeypatch.setattr(internal_topics, "_STARTING_SECS", 3.0)
    monkeypatch.setattr(internal_topics, "_PATIENCE_SECS", 5.0)


def settings(*kafkas: EmbeddedKafka) -> Settings:
    return Settings(topology="a:b", bootstrap_servers=",".join(kafka.bootstrap for kafka in kafkas))


def refused(
    check: Callable[[Topology, Settings], object], topology: Topology, *kafkas: EmbeddedKafka
) -> str:
    with pytest.raises(BrokerError) as error:
        check(topology, settings(*kafkas))
    said = str(error.value)
    # The error's frames keep a producer, which would report its dead broker during later tests.
    del error
    gc.collect()
    return said


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_too_high_replication_factor_is_named(topology: Topology, tmp_path: Path) -> None:
    """With Kafka's defaults, a single broker cannot create its internal topics."""
    too_many = {
        "transaction.state.log.replication.factor": "3",
        "offsets.topic.replication.factor": "2",
    }
    with (
        EmbeddedKafka(tmp_path, quick_start=True, settings=too_many) as kafka,
        ThreadPoolExecutor() as pool,
    ):
        offsets = pool.submit(refused, ensure_topics, topology, kafka)
        said = refused(check_transactions, topology, kafka)
        assert (
            "the brokers have transaction.state.log.replication.factor=3, but there is only 1"
            in said
        )
        assert "start 2 more, or set it to 1 and restart them" in said
        assert (
            "the brokers have offsets.topic.replication.factor=2, but there is only 1"
            in offsets.result()
        )


@pytest.mark.slow
def test_missing_in_sync_replica_is_named(
    topology: Topology,
    topic_prefix: str,
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of two brokers is down. The work continues without help when it is back."""
    connect = f"{zookeeper.connect}/{topic_prefix}"
    both = {"transaction.state.log.replication.factor": "2", "transaction.state.log.min.isr": "2"}
    one, two = (OldKafka(tmp_path, connect, broker=number, settings=both) for number in (1, 2))
    with ThreadPoolExecutor() as pool, one, two:
        admin = AdminClient({"bootstrap.servers": one.bootstrap})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 2, 30)
        check_transactions(topology, settings(one))
        two.kill()
        with monkeypatch.context() as patched:
            hurry(patched)
            said = refused(check_transactions, topology, one)
        assert "'__transaction_state' has 1 of 2 replicas in sync" in said
        assert "needs 2 (transaction.state.log.min.isr): start the brokers 2" in said
        waiting = pool.submit(transactional_producer.check_transactions, topology, settings(one))
        two.start()
        waiting.result()


@pytest.mark.slow
def test_too_low_transaction_timeout_is_named(
    topology: Topology,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A service exits at once with one line.

    `kstorm prepare` finds it earlier, whatever its wait.
    """
    with EmbeddedKafka(
        tmp_path, quick_start=True, settings={"transaction.max.timeout.ms": "5000"}
    ) as kafka:
        environment = {
            "KSTORM_TOPOLOGY": "tests.integration.topologies:wordcount",
            "KSTORM_BOOTSTRAP_SERVERS": kafka.bootstrap,
            "KSTORM_TEST_PREFIX": topology.name,
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as prepared:
            main(["prepare", "--allow-missing-ends", "--wait", "1000"])
        assert prepared.value.code == 2
        remedy = (
            "transaction.max.timeout.ms=5000 in the settings of the brokers is lower; set it to"
        )
        assert (
            f"does not allow transaction.timeout.ms=50000, which kstorm needs: {remedy} 50000"
            in capsys.readouterr().err
        )
        ended = start_service("bolt", tmp_path, KSTORM_COMPONENT="split", **environment)
        assert ended.returncode == 2
        assert "Traceback" not in ended.stdout + ended.stderr
        assert f"{remedy} 10000" in ended.stdout.strip().splitlines()[-1]
