"""Asking the state of a topology on real servers: what is told is true, whoever dies, and whoever has the task."""

from collections import Counter
from pathlib import Path

import pytest

from kstorm.cli.__main__ import main
from kstorm.client import StateClient
from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.integration.engine import Engine, running

EXACTLY_ONCE = {"KSTORM_TEST_GUARANTEE": "exactly_once"}
TEXT = [f"one two w{number % 7}" for number in range(4_000)]
WORDS = {"one", "two", *(f"w{number}" for number in range(7))}


def counts_of(client: StateClient) -> dict[str, int]:
    """What is told of each word that has a count, by itself."""
    found = {word: client.get("count", word) for word in WORDS}
    return {word: count for word, count in found.items() if count is not None}


def check_never_ahead(client: StateClient, engine: Engine, before: dict[str, int]) -> dict[str, int]:
    """A count that was told stays: it never falls, as one does that was told before it was committed. Each is at most what was
    produced."""
    produced = Counter(word for sentence in TEXT[: engine.produced] for word in sentence.split())
    told = counts_of(client)
    assert all(told.get(word, 0) >= count for word, count in before.items()), (before, told)
    assert all(count <= produced[word] for word, count in told.items()), (told, produced)
    return told


def test_counts_are_true_among_kills(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of two processes first one is killed amid the work and then the other: what is told never falls, and is exact in the end."""
    with running("wordcount", topic_prefix, kafka, zookeeper, tmp_path, monkeypatch, settings=EXACTLY_ONCE) as engine:
        engine.processes.scale("count", 2)
        processes = engine.processes.of("count")
        engine.await_spread("count")
        client = StateClient(topic_prefix, runs=tmp_path, patience=120)
        told: dict[str, int] = {}
        share = len(TEXT) // 4
        for number in range(4):
            engine.produce(TEXT[number * share : (number + 1) * share])
            engine.until(lambda: sum(engine.offsets().values()) < engine.produced, 60, "messages are under way")
            if number in (1, 2):
                processes[number - 1].process.kill()
            for _ in range(5):
                told = check_never_ahead(client, engine, told)
        engine.await_done("sentences")
        truth = Counter(word for sentence in TEXT for word in sentence.split())
        engine.until(lambda: counts_of(client) == truth, 60, "the last epoch is told")
        scanned = list(client.scan("count"))
        assert {each.key: each.read() for each in scanned} == truth
        assert len({each.task for each in scanned}) > 1
        with pytest.raises(SystemExit) as ended:
            main(["state", "get", topic_prefix, "count", "w1", "--runs", str(tmp_path)])
        assert (ended.value.code, str(truth["w1"]) in capsys.readouterr().out) == (0, True)
        with pytest.raises(SystemExit) as ended:
            main(["state", "get", topic_prefix, "count", "cow", "--runs", str(tmp_path)])
        assert ended.value.code == 1
