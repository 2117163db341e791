"""The lag of groups, before, while and after Kafka is away."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kstorm.dev.servers import EmbeddedKafka
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.lag import LagReader
from tests.integration.engine import make_topics

_POLL = """
import sys
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.lag import LagReader
reader = LagReader(Settings(topology="", bootstrap_servers=sys.argv[1]))
while True:
    print(reader.of("lags", {"count": 2, "sink": 1}), flush=True)
"""
_BOTH = "{'count': {0: 0, 1: 0}, 'sink': {0: 0}}"


def test_first_answer_has_the_lag_of_each_partition(
    kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.count"
    make_topics(kafka.bootstrap, {topic: 2, f"{topic_prefix}.new": 1})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for partition in (0, 0, 0, 1):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(30) == 0
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic, "log_level": 0})
    member.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    member.close()
    reader = LagReader(Settings(topology="", bootstrap_servers=kafka.bootstrap))
    found = reader.of(topic_prefix, {"count": 2, "new": 1})
    assert found == {"count": {0: 1, 1: 1}, "new": {0: 0}}


def test_markers_and_aborted_records_do_not_count(kafka: EmbeddedKafka, topic_prefix: str) -> None:
    """No group commits their offsets, so an idle component would have a lag forever.

    Partition 0 has only such offsets behind the group's, partition 1 has a record behind them, and
    partition 2 a record of an open transaction.
    """
    topic = f"{topic_prefix}.count"
    make_topics(kafka.bootstrap, {topic: 3})
    reader = LagReader(Settings(topology="", bootstrap_servers=kafka.bootstrap))
    producers = [
        Producer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "transactional.id": f"{topic}.{number}",
                "log_level": 0,
            }
        )
        for number in range(2)
    ]
    producer, other = producers
    for each in producers:
        each.init_transactions(30)

    def write(partitions: tuple[int, ...], *, commits: bool = True) -> None:
        producer.begin_transaction()
        for partition in partitions:
            producer.produce(topic, b"x", partition=partition)
        assert producer.flush(30) == 0
        (producer.commit_transaction if commits else producer.abort_transaction)(30)

    write((0, 1, 2))
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic, "log_level": 0})
    member.commit(offsets=[TopicPartition(topic, p, 1) for p in range(3)], asynchronous=False)
    assert reader.of(topic_prefix, {"count": 3}) == {"count": {0: 0, 1: 0, 2: 0}}
    for _ in range(20):
        write((0, 1, 2), commits=False)
    assert reader.of(topic_prefix, {"count": 3}) == {"count": {0: 0, 1: 0, 2: 0}}
    write((1,))
    other.begin_transaction()
    other.produce(topic, b"x", partition=2)
    assert other.flush(30) == 0
    expected = {"count": {0: 0, 1: 2, 2: 1}}
    assert reader.of(topic_prefix, {"count": 3}) == expected
    assert reader.of(topic_prefix, {"count": 3}) == expected
    fresh = LagReader(Settings(topology="", bootstrap_servers=kafka.bootstrap))
    assert fresh.of(topic_prefix, {"count": 3}) == expected
    other.abort_transaction(30)
    member.commit(offsets=[TopicPartition(topic, 1, 43)], asynchronous=False)
    member.close()
    assert reader.of(topic_prefix, {"count": 3}) == {"count": {0: 0, 1: 0, 2: 0}}


@pytest.mark.slow
def test_outage_of_kafka_does_not_end_the_process(tmp_path: Path) -> None:
    """librdkafka aborts the process if an admin client asks for the offsets of a group then."""
    with EmbeddedKafka(tmp_path, quick_start=True) as kafka:
        make_topics(kafka.bootstrap, {"lags.count": 2, "lags.sink": 1})
        with _polling(kafka.bootstrap, tmp_path / "polls") as (process, polls):
            _until(process, polls, _BOTH)
            kafka.kill()
            for _ in range(3):
                _until(process, polls, "{}", seen=polls.read_text().count("\n"))
            kafka.start()
            _until(process, polls, _BOTH, seen=polls.read_text().count("\n"))


@contextmanager
def _polling(bootstrap: str, polls: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    with polls.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", _POLL, bootstrap], stdout=file, stderr=subprocess.STDOUT
        )
        try:
            yield process, polls
        finally:
            process.kill()
            process.wait()


def _until(process: subprocess.Popen[bytes], polls: Path, line: str, seen: int = 0) -> None:
    """Wait until a line is printed after the first `seen` ones."""
    deadline = time.monotonic() + 60
    while line not in polls.read_text().splitlines()[seen:]:
        assert process.poll() is None, polls.read_text()[-400:]
        assert time.monotonic() < deadline, polls.read_text()[-400:]
        time.sleep(0.1)
