"""The page *Move a running topology*, followed with a real Storm that is killed at work."""

import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.commands.storm_cluster import needed, running_storm
from tests.conftest import Eventually
from tests.integration.kafka_topic import Topic
from tests.storm_move import PARTITIONS, Move

LONG = 1200
FIRST, SECOND = 500, 3000
"""Sentences per partition before and after the comparison."""
_WITHIN = 300


@pytest.fixture
def move(kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Move:
    """Write the files of the page, and create its topics."""
    variables = {
        "KSTORM_BOOTSTRAP_SERVERS": kafka.bootstrap,
        "KSTORM_ZOOKEEPER": zookeeper.connect,
        "PYSTORM_PYTHON": needed()[1],
    }
    found = Move(kafka.bootstrap, tmp_path, variables)
    found.write_files()
    for name in ("sentences", "counts", "counts-canary"):
        Topic(name, kafka).create(PARTITIONS)
    return found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(LONG)
def test_nothing_is_missing_and_only_messages_in_flight_are_repeated(
    move: Move, kafka: EmbeddedKafka, eventually: Eventually, capsys: pytest.CaptureFixture[str]
) -> None:
    """Storm commits an offset when all messages before it are acked. So the messages in flight are
    those from the committed offset on that Storm has written, and exactly these are repeated."""
    with running_storm(kafka.bootstrap, move.folder, move.folder) as storm:
        move.produce(FIRST)
        eventually(partial(move.has, "counts", move.expected({})), _WITHIN)
        with move.service("SUFFIX=-canary kstorm dev"):
            eventually(partial(move.has, "counts-canary", move.expected({})), _WITHIN)
            move.execute("kstorm migrate compare")
        before = move.words("counts").total()
        move.produce(SECOND)
        half = before + SECOND * PARTITIONS * 5 // 2
        eventually(lambda: move.words("counts").total() >= half, _WITHIN)
        storm.kill()
    killed = time.time()
    by_storm = move.words("counts")
    rest = move.expected(move.committed())
    finished = move.expected({}) - rest
    assert move.expected({}) > by_storm > finished
    move.execute("kstorm migrate offsets --group storm-word-count --topology word_count:topology")
    taken_over = time.time()
    with move.service("kstorm dev word_count:topology"):
        eventually(partial(move.has, "counts", by_storm + rest), _WITHIN)
        done = time.time()
    everything = move.words("counts")
    missing, twice = move.expected({}) - everything, everything - move.expected({})
    first = min(stamp for stamp in move.stamps("counts") if stamp > killed)
    with capsys.disabled():
        print(
            f"\nsentences: {move.produced * PARTITIONS}, words by Storm: {by_storm.total()}, "
            f"in flight: {(by_storm - finished).total()}, by kstorm: {rest.total()}, missing: "
            f"{missing.total()}, twice: {twice.total()}; seconds from Storm's end to the "
            f"takeover: {taken_over - killed:.0f}, to the first word: {first - killed:.0f}, "
            f"to the last: {done - killed:.0f}"
        )
    assert everything - by_storm == rest
    assert missing == Counter()
    assert twice == by_storm - finished
