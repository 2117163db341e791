"""The page *Move a running topology*, followed with a real Storm that is killed at work."""

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.operations.migration.storm_offsets import GroupOffsets
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.whole_topic import read_whole_topic
from tests.commands.storm_cluster import needed, running_storm
from tests.conftest import Eventually
from tests.integration.kafka_topic import Topic
from tests.tutorial import ROOT, assert_printed, blocks, environment, run, steps

PAGE = ROOT / "docs" / "guides" / "move-from-storm.md"
LONG = 1200
PARTITIONS, FIRST, SECOND = 4, 500, 3000
"""Partitions of the topic, and sentences per partition before and after the comparison."""
_WITHIN = 300


def sentence(partition: int, offset: int) -> str:
    """Return a sentence with a word of its own, so that each one can be recognized."""
    return f"p{partition}-{offset} the cow jumped over"


class Move:
    """The topics, and the commands of the page."""

    def __init__(self, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(topology="", bootstrap_servers=kafka.bootstrap)
        self.variables = {
            "KSTORM_BOOTSTRAP_SERVERS": kafka.bootstrap,
            "KSTORM_ZOOKEEPER": zookeeper.connect,
            "PYSTORM_PYTHON": needed()[1],
        }
        self.produced = 0

    def produce(self, count: int) -> None:
        """Write `count` sentences to each partition."""
        producer = Producer(self.settings.client_config)
        for offset in range(self.produced, self.produced + count):
            for partition in range(PARTITIONS):
                producer.produce("sentences", sentence(partition, offset), partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0
        self.produced += count

    def words(self, topic: str) -> Counter[str]:
        """Return how often each word was written."""
        return Counter(
            (record.key() or b"").decode() for record in read_whole_topic(self.settings, topic)
        )

    def expected(self, begins: Mapping[int, int]) -> Counter[str]:
        """Return the words of the sentences from these offsets on."""
        return Counter(
            word
            for partition in range(PARTITIONS)
            for offset in range(begins.get(partition, 0), self.produced)
            for word in sentence(partition, offset).split()
        )

    def has(self, topic: str, words: Counter[str]) -> bool:
        return words <= self.words(topic)

    def execute(self, start: str) -> None:
        """Run the commands of the page's block `console` that begins so."""
        for step in self._steps(start):
            printed = run(step[0], self.folder, self.variables)
            assert_printed(step[1], printed, step[0])

    def _steps(self, start: str) -> Iterable[tuple[str, str]]:
        (block,) = [
            block
            for block in blocks(PAGE)
            if block.language == "console" and block.text.startswith(f"$ {start}")
        ]
        return list(steps(block))

    @contextmanager
    def service(self, start: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run the command of the page's block `sh` that begins so. It has its own log."""
        (command,) = [
            block.text
            for block in blocks(PAGE)
            if block.language == "sh" and block.text.startswith(start)
        ]
        with (
            (self.folder / f"{start.split()[0]}.log").open("wb") as log,
            subprocess.Popen(
                [shutil.which("bash") or "/bin/sh", "-c", command.strip()],
                cwd=self.folder,
                env=environment(self.folder) | self.variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()
                process.wait(60)


@pytest.fixture
def move(kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Move:
    """Write the files of the page, and create its topics."""
    for block in blocks(PAGE):
        if block.title:
            (tmp_path / block.title).write_text(block.text)
    found = Move(kafka, zookeeper, tmp_path)
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
    group = GroupOffsets(move.settings, "storm-word-count")
    committed = {number: each.offset for number, each in group.read("sentences").items()}
    rest = move.expected(committed)
    finished = move.expected({}) - rest
    assert move.expected({}) > by_storm > finished
    move.execute("kstorm migrate offsets")
    taken_over = time.time()
    with move.service("kstorm dev word_count:topology"):
        eventually(partial(move.has, "counts", by_storm + rest), _WITHIN)
        done = time.time()
    everything = move.words("counts")
    missing, twice = move.expected({}) - everything, everything - move.expected({})
    stamps = [record.timestamp()[1] / 1000 for record in read_whole_topic(move.settings, "counts")]
    first = min(stamp for stamp in stamps if stamp > killed)
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
