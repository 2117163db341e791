"""State queries on real servers return committed state, despite kills and moved tasks."""

from collections import Counter
from pathlib import Path

import pytest

from kstorm.cli.__main__ import main
from kstorm.client import StateClient
from tests.integration.conftest import RunTopology
from tests.integration.engine import Engine

TEXT = [f"one two w{number % 7}" for number in range(4_000)]
WORDS = {"one", "two", *(f"w{number}" for number in range(7))}


def counts_of(client: StateClient) -> Counter[str]:
    """Query each word that has a count, one by one."""
    found = {word: client.get("count", word) for word in WORDS}
    return Counter({word: count for word, count in found.items() if count is not None})


def check_never_falls(
    client: StateClient, engine: Engine, before: Counter[str], exact: bool
) -> Counter[str]:
    """Assert that no count falls, because only committed counts are returned.

    With exactly once a count never exceeds the produced words.
    """
    produced = Counter(word for sentence in TEXT[: engine.produced] for word in sentence.split())
    told = counts_of(client)
    assert all(told.get(word, 0) >= count for word, count in before.items()), (before, told)
    assert not exact or all(count <= produced[word] for word, count in told.items()), (
        told,
        produced,
    )
    return told


@pytest.mark.parametrize(
    "guarantee",
    [
        pytest.param("exactly_once", marks=pytest.mark.slow),
        pytest.param("at_least_once", marks=pytest.mark.long),
    ],
)
def test_queried_counts_never_fall_despite_kills(
    run_topology: RunTopology,
    guarantee: str,
    topic_prefix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two processes are killed in turn.

    Finally no count is missing, and with exactly once all are exact.
    """
    settings = {"KSTORM_TEST_GUARANTEE": guarantee}
    with run_topology("wordcount", settings=settings) as engine:
        engine.processes.scale("count", 2)
        engine.await_spread("count")
        client = StateClient(topic_prefix, runs=tmp_path, patience=120)
        told: Counter[str] = Counter()
        share = len(TEXT) // 4
        for number in range(4):
            engine.produce(TEXT[number * share : (number + 1) * share])
            engine.until(
                lambda: sum(engine.offsets().values()) < engine.produced,
                60,
                "messages are under way",
            )
            if number in (1, 2):
                engine.processes.of("count")[number - 1].process.kill()
            for _ in range(5):
                told = check_never_falls(client, engine, told, guarantee == "exactly_once")
        engine.await_done("sentences")
        truth = Counter(word for sentence in TEXT for word in sentence.split())
        engine.until(lambda: counts_of(client) >= truth, 60, "the last checkpoint is told")
        scanned = {each.key: each for each in client.scan("count")}
        counts = {key: each.read() for key, each in scanned.items()}
        assert counts == (truth if guarantee == "exactly_once" else counts_of(client))
        assert len({each.task for each in scanned.values()}) > 1
        check_command(topic_prefix, tmp_path, counts["w1"], capsys)


def check_command(name: str, runs: Path, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that the command finds the run and the count, and no other key."""
    for key, code in (("w1", 0), ("cow", 1)):
        with pytest.raises(SystemExit) as ended:
            main(["state", "get", name, "count", key, "--runs", str(runs)])
        assert ended.value.code == code
        assert (str(count) in capsys.readouterr().out) == (code == 0)
