"""`kstorm dlq edit` with exactly once on real servers: the replay is in the sink once, despite kills
around its commit."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kstorm.cli.__main__ import main
from kstorm.core.dead_letters import DeadLetter
from kstorm.operations.letters.reading import read_letters
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.event_log import read_events
from kstorm.runtime.kafka.single_partition_topic import read_topic
from tests.integration import topologies
from tests.integration.conftest import RunTopology
from tests.integration.engine import SOURCE_PARTITIONS, Engine
from tests.integration.test_exactly_once import EXACTLY_ONCE, check_exactly

TEXT = ["one two", "two three"]


class Uncommitted:
    """Reads the newest records of some topics, also of transactions that are open."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int]) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "looks",
                "isolation.level": "read_uncommitted",
                "fetch.wait.max.ms": 5,
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, at, 0) for topic, tasks in topics.items() for at in range(tasks)]
        )

    def wait_for(self, topic: str, *, tombstone: bool) -> None:
        """Return as soon as the next record of the topic is in its log."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            record = self._consumer.poll(0.5)
            if record is not None:
                assert record.error() is None, record.error()
                if record.topic() == topic and (record.value() is None) is tombstone:
                    return
        pytest.fail(f"no record came to {topic}")

    def skip(self) -> None:
        """Pass over everything that exists."""
        while self._consumer.poll(1.0) is not None:
            pass

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def uncommitted(engine: Engine) -> Iterator[Uncommitted]:
    topology = engine.processes.topology
    found = Uncommitted(
        engine.bootstrap,
        {
            topology.orders_topic: 1,
            topology.bolt_topic("split"): topology.component("split").num_tasks,
        },
    )
    try:
        yield found
    finally:
        found.close()


def produce_unreadable(engine: Engine, settings: Settings, count: int) -> None:
    """Write undecodable messages and wait for their dead letters."""
    producer = Producer({"bootstrap.servers": engine.bootstrap})
    for number in range(count):
        producer.produce(engine.source, b"\xff", partition=number % SOURCE_PARTITIONS)
    assert producer.flush(30) == 0
    engine.until(lambda: len(letters(engine, settings)) == count, 60, "they are dead letters")


def letters(engine: Engine, settings: Settings) -> dict[int, DeadLetter]:
    """Return the current dead letters by number."""
    found = read_letters(settings, engine.processes.topology.name)
    return {one.number: one.letter for one in found.letters}


def edit(engine: Engine, number: int, value: str) -> None:
    code = f"{topologies.__name__}:wordcount"
    words = ["dlq", "edit", f"{number}", "--value", value, "--yes", "--topology", code]
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--bootstrap", engine.bootstrap])


@pytest.mark.parametrize("count", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_replay_is_in_the_sink_once_despite_kills(run_topology: RunTopology, count: int) -> None:
    """The spout is killed as soon as its tuple, or the end of the request, is in the log.

    This is before their transaction is committed, or just after.
    """
    with run_topology("wordcount", settings=EXACTLY_ONCE) as engine, uncommitted(engine) as log:
        settings = Settings(topology="", bootstrap_servers=engine.bootstrap)
        topology = engine.processes.topology
        name = topology.name
        engine.produce(TEXT)
        produce_unreadable(engine, settings, count)
        edited = []
        for number in letters(engine, settings):
            log.skip()
            edited.append(f"two w{number}")
            edit(engine, number, edited[-1])
            ends = len(edited) % 2 == 0
            topic = topology.orders_topic if ends else topology.bolt_topic("split")
            log.wait_for(topic, tombstone=ends)
            kill_spout(engine)
        engine.until(lambda: not letters(engine, settings), 120, "all letters are discarded")
        engine.until(lambda: ended(settings, name), 30, "all requests have ended")
        engine.until(
            lambda: len(engine.records()) >= sum(len(line.split()) for line in [*TEXT, *edited]),
            60,
            "everything is in the sink",
        )
        check_exactly(engine, [*TEXT, *edited])
        outcomes = [
            event.outcome
            for event in read_events(settings, name)
            if event.who.startswith("sentences, task ")
        ]
        assert outcomes == ["done"] * count


@pytest.mark.slow
def test_spout_survives_the_end_of_a_replay(run_topology: RunTopology) -> None:
    """Its transaction deletes the request and the dead letter."""
    with run_topology("wordcount", settings=EXACTLY_ONCE) as engine:
        settings = Settings(topology="", bootstrap_servers=engine.bootstrap)
        produce_unreadable(engine, settings, 1)
        before = {one.name: engine.life(one.name) for one in engine.processes.of("sentences")}
        (number,) = letters(engine, settings)
        edit(engine, number, "two w0")
        engine.until(lambda: not letters(engine, settings), 60, "the letter is discarded")
        engine.produce(TEXT)
        engine.until(lambda: len(engine.records()) >= 6, 60, "everything is in the sink")
        assert {
            one.name: engine.life(one.name) for one in engine.processes.of("sentences")
        } == before


def kill_spout(engine: Engine) -> None:
    """Kill all processes of the spout, and wait until they are back."""
    before = {one.name: engine.life(one.name) for one in engine.processes.of("sentences")}
    for one in engine.processes.of("sentences"):
        one.process.kill()

    def back() -> bool:
        lives = {spout: engine.life(spout) for spout in before}
        return all(life is not None and life != before[spout] for spout, life in lives.items())

    engine.until(back, 60, "the spout is back")


def ended(settings: Settings, name: str) -> bool:
    found = {record.key(): record.value() for record in read_topic(settings, f"{name}.__orders")}
    return set(found.values()) == {None}
