"""Everything that faults can break: servers, processes, networks, a small disk, and topics."""

import itertools
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from kstorm.dev.local_processes import LocalProcesses, Worker
from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import create_topic, ensure_topics
from kstorm.topology.topology import ACKER_COMPONENT
from tests.chaos.brokers import Brokers, open_brokers
from tests.chaos.findings import PartlyFailed, RecordPlace
from tests.chaos.proxy import Proxy
from tests.chaos.small_disk import small_disk
from tests.chaos.tested_topology import TestedTopology
from tests.chaos.topology import GUARANTEE_VARIABLE, PARTITIONS, SOURCE, TIMEOUT_VARIABLE

SINK_PARTITIONS: Final = 4
_SMALL_DISK_BYTES: Final = 96 << 20
_POST_SECS: Final = 60.0


@dataclass
class Testbed:
    """The objects that a fault may act on."""

    subject: TestedTopology
    directory: Path
    kafka: Brokers
    zookeeper: EmbeddedZooKeeper
    processes: LocalProcesses
    proxies: Mapping[str, Proxy]
    """By the name of the process that reaches Kafka through it. Empty with several brokers."""
    small_disk: Worker | None = None
    """The process whose data are on a separate small disk."""
    no_small_disk: str = ""
    """The reason why there is no small disk, or empty."""
    poison: list[RecordPlace] = field(default_factory=list)
    """Places of posted records that must end in the dead letters."""
    exactly_once: bool = False
    """True if a bolt gives up a single tuple, not its whole message."""
    parted: dict[RecordPlace, PartlyFailed] = field(default_factory=dict)
    """Places of posted messages of which some tuples must end in the dead letters."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def tasks(self) -> dict[str, int]:
        """Number of tasks of each component."""
        topology = self.processes.topology
        specs = [*topology.spouts, *topology.bolts]
        return {
            ACKER_COMPONENT: topology.config.acker_tasks,
            **{spec.id: spec.num_tasks for spec in specs},
        }

    def pick(self, role: str, rng: random.Random) -> Worker:
        return rng.choice(
            [
                worker
                for component in self.subject.roles[role]
                for worker in self.processes.of(component)
            ]
        )

    def data_of(self, worker: Worker) -> Path:
        """Return the folder of a process's RocksDB."""
        return self.processes.data_directory(worker.name)

    def post(self, topic: str, value: bytes, partition: int) -> RecordPlace:
        """Write one record, and wait until Kafka has it."""
        return post_all(self.kafka.bootstrap, topic, [(value, partition)])[0]

    def post_poison(self, topic: str, value: bytes, partition: int) -> None:
        """Write a record that cannot be processed."""
        self.poison.append(self.post(topic, value, partition))

    def post_parted(self, topic: str, value: bytes, partition: int, parted: PartlyFailed) -> None:
        """Write a message of which some tuples cannot be processed.

        With exactly-once processing, the other tuples are processed. At least once, the whole
        message is given up.
        """
        if self.exactly_once:
            self.parted[self.post(topic, value, partition)] = parted
        else:
            self.post_poison(topic, value, partition)

    def new_id(self) -> str:
        """Return a unique message id."""
        return f"poison{next(self._numbers)}"


def post_all(bootstrap: str, topic: str, records: list[tuple[bytes, int]]) -> list[RecordPlace]:
    """Write values to partitions, and wait until Kafka has them. Raises `BrokerError` if not."""
    places: list[RecordPlace] = []
    problems: list[str] = []

    def report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            problems.append(error.str())
        else:
            places.append(RecordPlace(topic, message.partition() or 0, message.offset() or 0))

    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    for value, partition in records:
        producer.produce(topic, value, partition=partition, on_delivery=report)
    if producer.flush(_POST_SECS) or problems:
        raise BrokerError(
            f"Kafka did not take a record of topic {topic!r}: {problems or 'no answer'}"
        )
    return places


@contextmanager
def open_testbed(
    subject: TestedTopology, directory: Path, timeout_secs: float, guarantee: str, brokers: int = 1
) -> Iterator[Testbed]:
    """Start servers and processes for the duration of the block.

    `timeout_secs` is the message timeout, and `guarantee` is the topology's.
    """
    # The processes inherit these variables.
    os.environ[TIMEOUT_VARIABLE] = f"{timeout_secs:g}"
    os.environ[GUARANTEE_VARIABLE] = guarantee
    os.environ["KSTORM_REPLICATION_FACTOR"] = f"{brokers}"
    os.environ.update(subject.environment)
    with ExitStack() as stack:
        proxies = {
            name: stack.enter_context(Proxy()) for name in subject.behind_proxy if brokers == 1
        }
        detours = {_listener(name): proxy.address for name, proxy in proxies.items()}
        zookeeper = stack.enter_context(EmbeddedZooKeeper(directory))
        kafka = stack.enter_context(open_brokers(directory, brokers, detours))
        for name, proxy in proxies.items():
            proxy.target = kafka.all[0].listener_port(_listener(name))
        settings = Settings(
            topology=subject.reference,
            bootstrap_servers=kafka.bootstrap,
            zookeeper=zookeeper.connect,
            replication_factor=kafka.replicas,
        )
        for topic, partitions in (
            (SOURCE, PARTITIONS),
            *((sink, SINK_PARTITIONS) for sink in subject.sinks),
        ):
            create_topic(settings, topic, partitions, {"message.timestamp.type": "LogAppendTime"})
        processes = LocalProcesses(
            subject.topology(),
            subject.reference,
            kafka.bootstrap,
            zookeeper.connect,
            directory,
            environment_of={
                name: {"KSTORM_BOOTSTRAP_SERVERS": proxy.address} for name, proxy in proxies.items()
            },
        )
        ensure_topics(processes.topology, settings)
        reason = stack.enter_context(
            small_disk(processes.data_directory(subject.small_disk), _SMALL_DISK_BYTES)
        )
        stack.callback(processes.kill)
        processes.start()
        small = (
            None
            if reason
            else next(worker for worker in processes.workers if worker.name == subject.small_disk)
        )
        once = processes.topology.config.exactly_once
        yield Testbed(
            subject,
            directory,
            kafka,
            zookeeper,
            processes,
            proxies,
            small,
            reason,
            exactly_once=once,
        )


def _listener(name: str) -> str:
    return name.replace("-", "").upper()
