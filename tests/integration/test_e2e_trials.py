"""The feed and the audit of the end-to-end run, on this machine.

First its topologies run undisturbed. Then the test damages copies of sink and dead letters.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kstorm.dev.local_processes import LocalProcesses
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.dev.topic_reader import consume_to
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import ensure_topics
from tests.conftest import Eventually
from tests.e2e.inside.findings import Findings
from tests.e2e.orders import ORDERS
from tests.e2e.trial import Trial
from tests.e2e.wordcount import WORDCOUNT
from tests.integration.engine import make_topics

_ROOT = Path(__file__).parents[2]
_PARTITIONS = 2
_RATE = 100
_MESSAGES = 200
"""The minimum number of messages. It includes each kind of bad message."""
_PATIENCE_SECS = 60


Headers = list[tuple[str, str | bytes | None]]


class Written(NamedTuple):
    """A record of the sink or the dead letters."""

    value: bytes
    headers: Headers


@contextmanager
def running(
    trial: Trial, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, workdir: Path
) -> Iterator[None]:
    settings = Settings(
        topology=trial.reference,
        bootstrap_servers=kafka.bootstrap,
        zookeeper=zookeeper.connect,
        replication_factor=1,
    )
    topology = settings.load_topology()
    make_topics(kafka.bootstrap, {trial.source: _PARTITIONS, trial.sink: _PARTITIONS})
    ensure_topics(topology, settings)
    processes = LocalProcesses(
        topology, trial.reference, kafka.bootstrap, zookeeper.connect, workdir
    )
    try:
        processes.start()
        processes.wait_ready(120)
        yield
    finally:
        processes.stop()


def feed(trial: Trial, bootstrap: str, workdir: Path, eventually: Eventually) -> int:
    """Post some messages as the pod does, and return their number."""
    lines, stop, log = workdir / "lines.txt", workdir / "stop", workdir / "feed.log"
    lines.write_text("\n".join(trial.lines()))
    arguments = ["feed", bootstrap, trial.source, trial.sink, str(_RATE), str(lines), str(stop)]
    with (
        log.open("wb") as out,
        subprocess.Popen(_command(arguments), cwd=_ROOT, stdout=out) as process,
    ):
        eventually(lambda: _last(log)["taken"] >= _MESSAGES and _last(log)["sink"] > 0, 120)
        stop.touch()
        assert process.wait(60) == 0
    return _last(log)["taken"]


def audit(
    trial: Trial, bootstrap: str, sink: str, letters: str, patience: int = _PATIENCE_SECS
) -> Findings:
    """Return the result that the pod would print."""
    arguments = [trial.audit, bootstrap, trial.source, sink, letters, str(patience)]
    done = subprocess.run(
        _command(arguments), cwd=_ROOT, capture_output=True, text=True, timeout=180, check=True
    )
    return Findings.from_json(done.stdout.splitlines()[-1])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "trial", [WORDCOUNT, pytest.param(ORDERS, marks=pytest.mark.long)], ids=lambda trial: trial.name
)
def test_audit_of_an_undisturbed_run_finds_only_injected_faults(
    trial: Trial,
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    eventually: Eventually,
) -> None:
    with running(trial, kafka, zookeeper, tmp_path):
        posted = feed(trial, kafka.bootstrap, tmp_path, eventually)
        found = audit(trial, kafka.bootstrap, trial.sink, trial.dead_letters)
    assert list(found.faults(trial.outputs)) == []
    assert found.messages == posted
    assert found.due >= posted - found.letters > 0
    assert found.slowest
    if trial is ORDERS:
        assert found.letters > 3
        for change, said in CHANGES.items():
            check_copies(trial, kafka.bootstrap, change, said)


def check_copies(trial: Trial, bootstrap: str, change: "Change", said: str) -> None:
    """Assert the audit's findings for damaged copies of sink and dead letters."""
    sink, letters = f"{trial.sink}-{change.__name__}", f"{trial.dead_letters}-{change.__name__}"
    written = [_read(bootstrap, topic) for topic in (trial.sink, trial.dead_letters)]
    change(*written)
    make_topics(bootstrap, {sink: 1, letters: 1})
    producer = Producer({"bootstrap.servers": bootstrap})
    for topic, records in zip((sink, letters), written, strict=True):
        for record in records:
            producer.produce(topic, record.value, headers=record.headers)
    assert producer.flush(60) == 0
    faults = list(audit(trial, bootstrap, sink, letters, patience=1).faults(trial.outputs))
    assert any(said in fault for fault in faults), (change.__name__, faults)


Change = Callable[[list[Written], list[Written]], object]


def lose_an_order(sink: list[Written], _letters: list[Written]) -> None:
    sink.pop(len(sink) // 2)


def write_an_order_again(sink: list[Written], _letters: list[Written]) -> None:
    sink.append(sink[len(sink) // 2])


def add_up_wrongly(sink: list[Written], _letters: list[Written]) -> None:
    record = json.loads(sink[-1].value)
    sink[-1] = sink[-1]._replace(
        value=json.dumps({**record, "total": record["total"] + "1"}).encode()
    )


def lose_a_letter(_sink: list[Written], letters: list[Written]) -> None:
    letters.pop()


CHANGES: dict[Change, str] = {
    lose_an_order: "1 orders were lost, such as orders-",
    write_an_order_again: "1 orders were written again",
    add_up_wrongly: "the sink is wrong: ",
    lose_a_letter: "no dead letter is about orders-",
}
"""The damage to sink and dead letters, and the audit's finding."""


def _read(bootstrap: str, topic: str) -> list[Written]:
    config = {"group.id": "copy", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **config})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), 30)[1]
            for number in partitions
        }
        return [
            Written(record.value() or b"", cast("Headers", record.headers() or []))
            for some in consume_to(consumer, topic, ends, {})
            for record in some
        ]
    finally:
        consumer.close()


def _command(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", f"tests.e2e.inside.{arguments[0]}", *arguments[1:]]


def _last(log: Path) -> dict[str, int]:
    """Return the last counts of the feed."""
    lines = log.read_text().splitlines()
    found: dict[str, int] = json.loads(lines[-1]) if lines else {"taken": 0, "sink": 0}
    return found
