"""Kafka is away longer than any session: every process waits for it, reports the outage, and
continues afterwards."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstorm.dev.servers import EmbeddedKafka
from tests.integration.conftest import RunTopology
from tests.integration.engine import Engine, check_words, readyz
from tests.integration.test_engine import sentences
from tests.integration.test_exactly_once import EXACTLY_ONCE

AWAY_SECS = 12.0
"""Twice the length of a session."""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker of this test."""
    with EmbeddedKafka(tmp_path, quick_start=True, heap="256m") as server:
        yield server


def lives(engine: Engine) -> dict[str, tuple[int, int]]:
    """Return the number of starts and the identity of each process."""
    return {
        worker.name: (worker.process.starts, worker.process.pid)
        for worker in engine.processes.workers
    }


def begun_at(engine: Engine, name: str) -> float:
    status = engine.processes.statuses()[name]
    assert status is not None
    return float(status["begun_at"])


def says_that_kafka_is_away(engine: Engine) -> bool:
    """True if all processes report the outage."""
    statuses = engine.processes.statuses().values()
    return all(
        status is not None and "Kafka has been unreachable since " in status["not_ready"]
        for status in statuses
    )


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="at least once", marks=pytest.mark.long),
        pytest.param(EXACTLY_ONCE, id="exactly once", marks=pytest.mark.slow),
    ],
)
def test_no_process_ends_during_an_outage(
    run_topology: RunTopology, kafka: EmbeddedKafka, settings: dict[str, str]
) -> None:
    """All processes report its start. Nothing is lost, and with exactly once nothing is doubled."""
    with run_topology("wordcount", settings=settings) as engine:
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


@pytest.mark.slow
def test_process_stopped_during_an_outage_exits(
    run_topology: RunTopology, kafka: EmbeddedKafka
) -> None:
    """It does not restart its work, although it loses its tasks while it waits for its records.

    Otherwise it would never stop.
    """
    with run_topology("wordcount", timeout_secs=120) as engine:
        engine.produce(sentences(3000))
        engine.await_total("count", "executed", 500)
        split, count = engine.worker("split-0").process, engine.worker("count-0").process
        kafka.kill()
        for process in (split, count):
            process.stop(50.0)
        assert {split.returncode, count.returncode} <= {0, 1}, engine.summary()


@pytest.mark.slow
def test_process_started_during_an_outage_waits_and_can_be_stopped(
    run_topology: RunTopology, kafka: EmbeddedKafka
) -> None:
    """Kubernetes also moves pods during an outage. A waiting process has nothing to finish.

    Its work does not count as another start.
    """
    with run_topology("wordcount") as engine:
        kafka.kill()
        split, count = engine.worker("split-0"), engine.worker("count-0")
        for worker in (split, count):
            worker.process.kill()
        engine.until(lambda: says_that_kafka_is_away(engine), 60, "all say that Kafka is away")
        before = lives(engine)
        split.process.stop()
        assert split.process.returncode == 0
        begun = begun_at(engine, "count-0")
        kafka.start()
        split.process.start()
        text = sentences(500)
        engine.produce(text)
        engine.await_done("sentences")
        assert {**lives(engine), "split-0": ()} == {**before, "split-0": ()}
        assert begun_at(engine, "count-0") == begun
        check_words(engine, text)
