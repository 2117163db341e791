"""A topology on real servers, with one process per service.

Plain clients write its source and read its sink.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kstorm.dev.local_processes import LocalProcesses, Worker
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.kafka import KafkaSpout
from kstorm.references import is_file
from kstorm.runtime.base.settings import load_topology
from kstorm.runtime.service.status_counters import run_key
from tests.integration import topologies

SOURCE_PARTITIONS, SINK_PARTITIONS = 6, 4
_ROOT = Path(__file__).parents[2]


class Engine:
    """Operations and queries of a test on a running topology."""

    def __init__(self, processes: LocalProcesses, bootstrap: str, source: str, sink: str) -> None:
        self.processes, self.bootstrap, self.source, self.sink = processes, bootstrap, source, sink
        self.produced = 0

    def produce(self, messages: Iterable[str], headers: Sequence[tuple[str, str]] = ()) -> None:
        """Write messages with these headers to the source topic, evenly over its partitions."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "linger.ms": 5,
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        for message in messages:
            partition = self.produced % SOURCE_PARTITIONS
            producer.produce(
                self.source, message.encode(), partition=partition, headers=list(headers)
            )
            self.produced += 1
        assert producer.flush(60) == 0

    def stop(self) -> None:
        """Stop all processes as `kstorm dev` does. Each of them must exit without an error."""
        workers = list(self.processes.workers)
        self.processes.stop()
        codes = {worker.name: worker.process.returncode for worker in workers}
        assert codes == dict.fromkeys(codes, 0)

    def worker(self, name: str) -> Worker:
        return next(worker for worker in self.processes.workers if worker.name == name)

    def life(self, name: str) -> tuple[int, float] | None:
        """Return a value that changes when a process dies or restarts its work.

        Return None without a response.
        """
        status = self.worker(name).status()
        return None if status is None else run_key(status)

    def total(self, component: str, key: str) -> int:
        """Return the sum of a count over the responding processes of a component."""
        statuses = (worker.status() for worker in self.processes.of(component))
        return sum(status[key] for status in statuses if status is not None)

    def total_tasks(self, component: str, number: int) -> int:
        status = self.processes.of(component)[number].status()
        return 0 if status is None else len(status["tasks"])

    def members(self, component: str) -> list[str]:
        """Return the instance names in a component's group, from the broker."""
        group = self.processes.topology.group(component)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        found = admin.describe_consumer_groups([group], request_timeout=30)[group].result()
        return [member.group_instance_id for member in found.members]

    def await_spread(self, component: str, timeout: float = 90.0) -> None:
        """Wait until every process of a component has tasks."""
        numbers = range(len(self.processes.of(component)))
        self.until(
            lambda: all(self.total_tasks(component, number) for number in numbers),
            timeout,
            f"every process of {component} has tasks",
        )

    def await_total(self, component: str, key: str, at_least: int, timeout: float = 120.0) -> None:
        """Wait until a count is reached."""
        self.until(
            lambda: self.total(component, key) >= at_least,
            timeout,
            f"{component}.{key} ≥ {at_least}",
        )

    def await_done(self, spout: str, timeout: float = 180.0) -> None:
        """Wait until every message of the source is finished.

        The stored offsets are then at the ends of the partitions.
        """
        expected = {
            p: len(range(p, self.produced, SOURCE_PARTITIONS)) for p in range(SOURCE_PARTITIONS)
        }
        self.until(lambda: self.offsets() == expected, timeout, f"offsets {expected}")
        self.until(lambda: self.total(spout, "pending") == 0, 30, "nothing pending")

    def offsets(self) -> dict[int, int]:
        """Return the offsets in ZooKeeper, from a plain client."""
        login = self.processes.environment.get("KSTORM_ZOOKEEPER_AUTH", "").removeprefix("digest:")
        client = KazooClient(
            self.processes.zookeeper, auth_data=[("digest", login)] if login else None
        )
        client.start(30)
        try:
            found = {}
            for partition in range(SOURCE_PARTITIONS):
                try:
                    data, _ = client.get(f"{self._offsets_at}/partition_{partition}")
                    found[partition] = json.loads(data)["offset"]
                except (NoNodeError, ValueError):
                    continue
            return found
        finally:
            client.stop()
            client.close()

    @property
    def _offsets_at(self) -> str:
        """Return the node of the topology's `KafkaSpout`."""
        spouts = [spec.component for spec in self.processes.topology.spouts]
        return next(spout.spout_config.zk_path for spout in spouts if isinstance(spout, KafkaSpout))

    def until(self, condition: Callable[[], bool], timeout: float, what: object) -> None:
        """Wait for a condition. A failure names it, and has the state of the topology."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"{w.name}: {w.process.log_tail(6)}" for w in self.processes.workers
                )
                pytest.fail(
                    f"not within {timeout:.0f} s: {what}\n{json.dumps(self.summary())}\n{self.offsets()}\n{logs}"
                )
            time.sleep(0.1)

    def summary(self) -> dict[str, Any]:
        keys = (
            "emitted",
            "executed",
            "acked",
            "failed",
            "pending",
            "tasks",
            "errors",
            "last_error",
        )
        return {
            name: status and {key: status.get(key) for key in keys}
            for name, status in self.processes.statuses().items()
        }

    def records(self, topic: str | None = None, partitions: int = SINK_PARTITIONS) -> list[Any]:
        """Return all records of a topic, decoded from JSON."""
        found = self.values(topic or self.sink, partitions)
        return [json.loads(value or b"null") for values in found for value in values]

    def values(self, topic: str, partitions: int) -> list[list[bytes | None]]:
        """Return the values of all records in each partition of a topic."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "audit", "log_level": 0}
        )
        found: list[list[bytes | None]] = []
        try:
            for partition in range(partitions):
                place = TopicPartition(topic, partition, 0)
                _, end = consumer.get_watermark_offsets(place, timeout=30)
                consumer.assign([place])
                found.append(values := [])
                while end and consumer.position([place])[0].offset < end:
                    for message in consumer.consume(5000, 0.2):
                        assert message.error() is None, message.error()
                        values.append(message.value())
        finally:
            consumer.close()
        return found


def check_words(engine: Engine, sentences: Iterable[str]) -> Counter[str]:
    """Assert that no count is too low and no occurrence is missing.

    Returns the excess of the counts.
    """
    truth = Counter(word for sentence in sentences for word in sentence.split())
    highest: Counter[str] = Counter()
    ids = set()
    for record in engine.records():
        highest[record["word"]] = max(highest[record["word"]], record["count"])
        ids.add(record["id"])
    assert set(highest) == set(truth), set(highest) ^ set(truth)
    assert not {
        word: (highest[word], count) for word, count in truth.items() if highest[word] < count
    }
    assert len(ids) == sum(truth.values())
    return highest - truth


def readyz(worker: Worker) -> tuple[int, str]:
    """Return status and text of `/readyz`."""
    try:
        with urlopen(f"http://127.0.0.1:{worker.web_port}/readyz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def running(
    reference: str,
    prefix: str,
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    workdir: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    timeout_secs: float = 30.0,
    bootstrap: str | None = None,
    settings: Mapping[str, str] | None = None,
    anew: bool = True,
) -> Iterator[Engine]:
    """Run `topologies:<reference>`, or the topology of a YAML file, during the context.

    All workers are ready at its start. `bootstrap` is the listener for the services. The test's own
    clients always use the listener without TLS, which is the default. `settings` are further
    variables of the services. With `anew=False` the source and the sink exist already.

    The end kills the processes. A test that needs them stopped calls `Engine.stop`.
    """
    _name, source, sink = topologies.names(prefix)
    environment = {
        "KSTORM_TEST_PREFIX": prefix,
        "KSTORM_TEST_TIMEOUT": str(timeout_secs),
        "KSTORM_LOG_FORMAT": "console",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
        **(settings or {}),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    reference = reference if is_file(reference) else f"tests.integration.topologies:{reference}"
    topology = load_topology(reference)
    if anew:
        make_topics(kafka.bootstrap, {source: SOURCE_PARTITIONS, sink: SINK_PARTITIONS})
    processes = LocalProcesses(
        topology,
        reference,
        bootstrap or kafka.bootstrap,
        zookeeper.connect,
        workdir,
        environment,
        restart_delay=0.2,
    )
    try:
        processes.start()
        processes.wait_ready(120)
        yield Engine(processes, kafka.bootstrap, source, sink)
    finally:
        # A clean stop takes seconds, or 20 s while a tree is open.
        processes.kill()


def make_topics(bootstrap: str, topics: dict[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics(
        [NewTopic(name, count, 1) for name, count in topics.items()]
    ).values():
        future.result(30)
