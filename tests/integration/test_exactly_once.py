"""Exactly once on real servers: despite kills each word is counted once and written once."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import TopicPartition

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.lag import LagReader
from kstorm.runtime.kafka.offset_reader import OffsetReader
from tests.integration.conftest import RunTopology
from tests.integration.engine import Engine, check_words, running
from tests.integration.old_kafka import OldKafka
from tools.kafka_releases import new_kafka_jars

EXACTLY_ONCE = {"KSTORM_TEST_GUARANTEE": "exactly_once"}
TEXT = [f"one two w{number % 7}" for number in range(8_000)]


def check_exactly(engine: Engine, text: list[str], times: int = 1) -> None:
    """Assert that the sink has each occurrence once, with the counts 1, 2, … n of each word.

    `times` is the maximum number of times that a message was processed.
    """
    truth = Counter(word for sentence in text for word in sentence.split())
    records = engine.records()
    counts: dict[str, list[int]] = {}
    for record in records:
        counts.setdefault(record["word"], []).append(record["count"])
    assert {word: len(found) for word, found in counts.items()} == truth
    assert {
        word: sorted(found) == list(range(1, truth[word] + 1)) for word, found in counts.items()
    } == dict.fromkeys(truth, True)
    assert max(Counter(record["id"] for record in records).values()) == times


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_kills_of_every_kind_of_process(run_topology: RunTopology, kills: int) -> None:
    with run_topology("wordcount", settings=EXACTLY_ONCE) as engine:
        kill_each_kind(engine, kills)


@pytest.mark.long
def test_kills_of_every_kind_of_process_on_kafka_3_9(
    zookeeper: EmbeddedZooKeeper, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the last series with metadata in ZooKeeper."""
    with (
        OldKafka(tmp_path, f"{zookeeper.connect}/{topic_prefix}") as old,
        running(
            "wordcount", topic_prefix, old, zookeeper, tmp_path, monkeypatch, settings=EXACTLY_ONCE
        ) as engine,
    ):
        kill_each_kind(engine, 2)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [EXACTLY_ONCE, {}], ids=["exactly once", "at least once"])
def test_kills_of_every_kind_of_process_on_the_newest_kafka(
    settings: dict[str, str],
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        EmbeddedKafka(tmp_path, quick_start=True, jars=new_kafka_jars) as new,
        running(
            "wordcount", topic_prefix, new, zookeeper, tmp_path, monkeypatch, settings=settings
        ) as engine,
    ):
        kill_each_kind(engine, 1, check_exactly if settings else check_words)


@pytest.mark.slow
def test_bytes_sent_in_transactions_are_counted(run_topology: RunTopology) -> None:
    """They include the tuples. The records of a sink are not frames."""

    def sent_bytes(name: str) -> float:
        with urlopen(f"http://127.0.0.1:{engine.worker(name).web_port}/metrics", timeout=5) as page:
            found = re.search(
                r"^kstorm_sent_bytes_total(?:{[^}]*})? (\S+)$", page.read().decode(), re.MULTILINE
            )
        assert found is not None
        return float(found[1])

    with run_topology("wordcount", settings=EXACTLY_ONCE) as engine:
        engine.produce(TEXT[:1000])
        engine.await_done("sentences")
        for name in ("sentences-0", "split-0"):
            engine.until(
                lambda name=name: sent_bytes(name) > sum(map(len, TEXT[:1000])),  # type: ignore[misc]
                10,
                f"{name} has sent",
            )
        written = sum(len(str(record)) for record in engine.records())
        assert sent_bytes("sink-0") < written / 2, "it sends acks alone"


@pytest.mark.slow
def test_idle_topology_has_no_lag(run_topology: RunTopology, topic_prefix: str) -> None:
    """Its input topics end with transaction markers, which no group commits."""
    tasks = {"split": 4, "count": 4, "sink": 2, "__acker": 1}
    with run_topology("wordcount", settings=EXACTLY_ONCE) as engine:
        settings = Settings(topology="", bootstrap_servers=engine.bootstrap)
        reader, offsets = LagReader(settings), OffsetReader(settings)

        def markers() -> list[int]:
            """Return the distance of each group from the end."""
            topics = {
                f"{topic_prefix}.{name}": [
                    TopicPartition(f"{topic_prefix}.{name}", task) for task in range(count)
                ]
                for name, count in tasks.items()
            }
            found = offsets.committed(topics, 5)
            ends = {(one.topic, one.partition): one.offset for one in offsets.ends(found, 5)}
            return [ends[one.topic, one.partition] - max(0, one.offset) for one in found]

        def lags() -> list[int]:
            found = reader.of(topic_prefix, tasks)
            return [lag for by_task in found.values() for lag in by_task.values()]

        for _ in range(2):
            engine.produce(TEXT[:300])
            engine.await_done("sentences")
            engine.until(lambda: lags() == [0] * 11, 30, "no task is behind")
        assert len(markers()) == 11
        assert sum(behind > 0 for behind in markers()) > 5, "they end with markers"


def kill_each_kind(
    engine: Engine, times: int, check: Callable[[Engine, list[str]], object] = check_exactly
) -> None:
    """Kill each kind of process during the work, then check the counts."""
    names = [worker.name for worker in engine.processes.workers] * times
    share = len(TEXT) // len(names)
    for number, name in enumerate(names):
        engine.produce(TEXT[number * share : (number + 1) * share])
        engine.until(
            lambda: sum(engine.offsets().values()) < engine.produced, 60, "messages are under way"
        )
        engine.worker(name).process.kill()
        engine.until(lambda: engine.worker(name).status() is not None, 60, f"{name} is back")  # noqa: B023 - called at once
    engine.produce(TEXT[len(names) * share :])
    engine.await_done("sentences")
    check(engine, TEXT)
