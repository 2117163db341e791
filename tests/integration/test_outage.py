"""Kafka is away for longer than any session: every process waits for it, says so, and goes on when it is back."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstorm.local.cluster import Worker
from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.integration.engine import Engine, check_words, running
from tests.integration.test_engine import sentences
from tests.integration.test_exactly_once import EXACTLY_ONCE

AWAY_SECS = 12.0
"""Twice as long as a session."""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker of this test's own."""
    with EmbeddedKafka(tmp_path, quick_start=True, heap="256m") as server:
        yield server


def readyz(worker: Worker) -> tuple[int, str]:
    """What a probe is answered."""
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{worker.web_port}/readyz", timeout=10
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def lives(engine: Engine) -> dict[str, tuple[int, int]]:
    """How often each process was started, and which one it is."""
    return {
        worker.name: (worker.process.starts, worker.process.pid)
        for worker in engine.processes.workers
    }


def says_that_kafka_is_away(engine: Engine) -> bool:
    """Whether all do."""
    statuses = engine.processes.statuses().values()
    return all(
        status is not None and "Kafka has been unreachable since " in status["not_ready"]
        for status in statuses
    )


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="at least once", marks=pytest.mark.slow),
        pytest.param(EXACTLY_ONCE, id="exactly once"),
    ],
)
def test_no_process_exits_during_a_kafka_outage(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
) -> None:
    """No process is started again, all say since when Kafka is away, and nothing is lost, or twice if it must not be."""
    places: Any = (kafka, zookeeper, tmp_path, monkeypatch)
    with running("wordcount", topic_prefix, *places, settings=settings) as engine:
        text = sentences(6000)
        before = lives(engine)
        engine.produce(text[:3000])
        engine.await_total("sentences", "acked", 500)
        kafka.kill()
        away = time.monotonic()
        engine.until(lambda: says_that_kafka_is_away(engine), 60, "all say that Kafka is away")
        for worker in engine.processes.workers:
            code, says = readyz(worker)
            assert code == 503
            assert f"no Kafka broker answered at {kafka.bootstrap!r}" in says
            assert "are KSTORM_BOOTSTRAP_SERVERS and the security.protocol right?" in says
            with urllib.request.urlopen(
                f"http://127.0.0.1:{worker.web_port}/livez", timeout=10
            ) as answer:
                assert answer.read() == b"ok\n"
        engine.until(lambda: time.monotonic() - away > AWAY_SECS, 60, "the outage has lasted")
        kafka.start()
        engine.produce(text[3000:])
        engine.await_done("sentences")
        assert lives(engine) == before
        over = check_words(engine, text)
        assert not (settings and over)


def test_process_stops_on_request_during_an_outage(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does not begin anew, although its tasks are lost while it waits for what it has sent: nobody would tell it again."""
    places: Any = (kafka, zookeeper, tmp_path, monkeypatch)
    with running("wordcount", topic_prefix, *places, timeout_secs=120) as engine:
        engine.produce(sentences(3000))
        engine.await_total("count", "executed", 500)
        split, count = engine.worker("split-0").process, engine.worker("count-0").process
        kafka.kill()
        for process in (split, count):
            process.stop(50.0)
        assert {split.returncode, count.returncode} <= {0, 1}, engine.summary()


def test_a_process_that_starts_amid_it_waits_and_can_be_stopped(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Kubernetes moves pods then as well; and what waits has nothing to finish."""
    places: Any = (kafka, zookeeper, tmp_path, monkeypatch)
    with running("wordcount", topic_prefix, *places) as engine:
        kafka.kill()
        split, count = engine.worker("split-0"), engine.worker("count-0")
        for worker in (split, count):
            worker.process.kill()
        engine.until(lambda: says_that_kafka_is_away(engine), 60, "all say that Kafka is away")
        before = lives(engine)
        split.process.stop()
        assert split.process.returncode == 0
        kafka.start()
        split.process.start()
        text = sentences(500)
        engine.produce(text)
        engine.await_done("sentences")
        assert {**lives(engine), "split-0": ()} == {**before, "split-0": ()}
        check_words(engine, text)
