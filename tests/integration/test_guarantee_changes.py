"""A topology changes its guarantee, and an operator moves its position, on real servers."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kstorm.core.exactly_once.unfinished import MARK, UnfinishedTuple
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.integration.engine import SOURCE_PARTITIONS, Engine, make_topics, running
from tests.integration.finished_ranges import finished_ranges, offsets_in
from tests.integration.test_exactly_once import check_exactly
from tests.kstorm_command import says

Run = Callable[[str], AbstractContextManager[Engine]]
ROW = msgspec.msgpack.encode([UnfinishedTuple(0, 0, False, 0), UnfinishedTuple(1, 2, True, 0)])


@pytest.fixture
def run(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """A function that runs the word count with a guarantee.

    Each run resumes where the last one stopped.
    """
    runs = iter(range(10))

    @contextmanager
    def start(guarantee: str) -> Iterator[Engine]:
        number = next(runs)
        with running(
            "wordcount",
            topic_prefix,
            kafka,
            zookeeper,
            tmp_path / str(number),
            monkeypatch,
            settings={"KSTORM_TEST_GUARANTEE": guarantee, "KSTORM_LEAVE_ON_STOP": "true"},
            anew=not number,
        ) as engine:
            yield engine
            engine.stop()

    return start


def positions(kafka: EmbeddedKafka, topology: str) -> set[int]:
    """Return the source offsets of the spout's group."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"{topology}.sentences"})
    try:
        places = [
            TopicPartition(f"{topology}-in", partition) for partition in range(SOURCE_PARTITIONS)
        ]
        return {place.offset for place in consumer.committed(places, timeout=30)}
    finally:
        consumer.close()


def command(
    engine: Engine, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0
) -> str:
    """Return the output of `kstorm offsets` for the topology's spout, or its error for another exit
    code."""
    servers = ["--bootstrap", engine.bootstrap, "--zookeeper", engine.processes.zookeeper]
    topology = ("--topology", engine.processes.reference)
    return says(capsys, "offsets", *arguments, *topology, *servers, code=code)


@pytest.mark.slow
@pytest.mark.timeout(900)  # three topologies, one after the other
def test_return_to_exactly_once_counts_nothing_twice(
    run: Run, kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """The position of the first run is outdated then."""
    text = [f"one two w{number % 7}" for number in range(1800)]
    done = 0
    for guarantee in ("exactly_once", "at_least_once", "exactly_once"):
        with run(guarantee) as engine:
            engine.produced = done
            engine.produce(text[done : done + 600])
            done += 600
            engine.await_done("sentences")
        if guarantee == "at_least_once":
            assert positions(kafka, topic_prefix) == {100}
    assert positions(kafka, topic_prefix) == {300}
    check_exactly(engine, text)


@pytest.mark.slow
def test_offsets_reset_moves_the_position(
    run: Run, kafka: EmbeddedKafka, topic_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It moves the spout's start and the group's offset. All messages are processed again."""
    text = [f"one two w{number % 7}" for number in range(600)]
    with run("exactly_once") as engine:
        engine.produce(text)
        engine.await_done("sentences")
        assert "is in use" in command(engine, capsys, "reset", "--to", "earliest", code=2)
    assert positions(kafka, topic_prefix) == {100}
    assert "100 → 0" in command(engine, capsys, "reset", "--to", "earliest")
    assert positions(kafka, topic_prefix) == {0}
    pairs = [f"{partition}=40" for partition in range(SOURCE_PARTITIONS)]
    command(engine, capsys, "set", *pairs)
    shown = command(engine, capsys, "show")
    assert re.search(r"│\s*40 │\s*40 │", shown)
    with run("exactly_once") as engine:
        engine.produced = 600
        engine.await_done("sentences")
    check_exactly(engine, text + text[240:], times=2)
    shown = command(engine, capsys, "show")
    assert re.search(r"│\s*100 │\s*100 │", shown)
    ranges = finished_ranges(kafka.bootstrap, f"{topic_prefix}.__finished")
    for partition in range(SOURCE_PARTITIONS):
        own = [found for found in ranges if found.partition == partition]
        moves = [
            (skip.start, skip.end, skip.why.split()[2]) for found in own for skip in found.skipped
        ]
        assert moves == [(100, 0, "reset"), (0, 40, "set")]
        assert offsets_in([found for found in own if not found.skipped]) == set(range(100))
        assert sum(found.n.get("acked", 0) + found.n.get("committed", 0) for found in own) == 160


@pytest.mark.slow
def test_unfinished_exactly_once_tuples_block_at_least_once(
    run: Run, kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """A bolt with or without state does not start and names the tuples.

    It starts after they are finished.
    """
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def write(component: str, value: bytes | None) -> None:
        for task in range(tasks[component]):
            producer.produce(
                f"{topic_prefix}.{component}.__state",
                value,
                MARK + (7).to_bytes(8, "big"),
                partition=task,
            )
        assert producer.flush(30) == 0

    with run("at_least_once") as engine:
        tasks = {
            name: engine.processes.topology.component(name).num_tasks for name in ("count", "sink")
        }
        make_topics(kafka.bootstrap, {f"{topic_prefix}.sink.__state": tasks["sink"]})
        for component in tasks:
            process = engine.worker(f"{component}-0").process
            process.stop()
            write(component, ROW)
            process.start()
            says = f"of {component!r} has 2 unfinished tuples"
            engine.until(lambda: says in process.log_tail(), 60, "it says what is left")  # noqa: B023 - called at once
            assert "offsets [7]" in process.log_tail()
            write(component, None)
        engine.produce(["one two"] * 60)
        engine.await_done("sentences")
