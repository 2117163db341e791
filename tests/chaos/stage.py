"""Everything that faults can break: servers, processes, the networks between them, a small disk, and a way to post bad
records."""

import itertools
import os
import random
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from kstorm.errors import BrokerError
from kstorm.local.cluster import LocalProcesses, Worker
from kstorm.local.servers import EmbeddedZooKeeper
from kstorm.runtime.kafka.topics import create_topic, ensure_topics
from kstorm.runtime.service.settings import Settings
from kstorm.topology.topology import ACKER_COMPONENT
from tests.chaos.brokers import Brokers, open_brokers
from tests.chaos.findings import Parted, RecordPlace
from tests.chaos.proxy import Proxy
from tests.chaos.subject import Subject
from tests.chaos.topology import GUARANTEE_VARIABLE, PARTITIONS, SOURCE, TIMEOUT_VARIABLE

SINK_PARTITIONS: Final = 4
_SMALL_DISK_BYTES: Final = 96 << 20
_POST_SECS: Final = 60.0


@dataclass
class Stage:
    """Everything that a fault may act upon."""

    subject: Subject
    directory: Path
    kafka: Brokers
    zookeeper: EmbeddedZooKeeper
    processes: LocalProcesses
    proxies: Mapping[str, Proxy]
    """By the name of the process that reaches Kafka through it. None if there are more brokers than one."""
    small_disk: Worker | None = None
    """The process whose data are on a disk of their own, which is small."""
    no_small_disk: str = ""
    """Why there is none."""
    poison: list[RecordPlace] = field(default_factory=list)
    """Where records were posted that must end among the dead letters."""
    exactly_once: bool = False
    """Whether a bolt gives a single tuple up, and not its whole message."""
    parted: dict[RecordPlace, Parted] = field(default_factory=dict)
    """Where messages were posted of which some tuples must end there."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def tasks(self) -> dict[str, int]:
        """How many tasks each component has."""
        topology = self.processes.topology
        specs = [*topology.spouts, *topology.bolts]
        return {
            ACKER_COMPONENT: topology.config.acker_tasks,
            **{spec.id: spec.num_tasks for spec in specs},
        }

    def pick(self, role: str, rng: random.Random) -> Worker:
        """A process of a role."""
        return rng.choice(
            [
                worker
                for component in self.subject.roles[role]
                for worker in self.processes.of(component)
            ]
        )

    def data_of(self, worker: Worker) -> Path:
        """The folder of a process's RocksDB."""
        return self.processes.data_directory(worker.name)

    def post(self, topic: str, value: bytes, partition: int) -> RecordPlace:
        """Write one record, and wait until Kafka has it."""
        return post_all(self.kafka.bootstrap, topic, [(value, partition)])[0]

    def post_poison(self, topic: str, value: bytes, partition: int) -> None:
        """Write a record that cannot be processed."""
        self.poison.append(self.post(topic, value, partition))

    def post_parted(self, topic: str, value: bytes, partition: int, parted: Parted) -> None:
        """Write a message of which some tuples cannot be processed: exactly once the others are, at least once none counts."""
        if self.exactly_once:
            self.parted[self.post(topic, value, partition)] = parted
        else:
            self.post_poison(topic, value, partition)

    def new_id(self) -> str:
        """An id for a message that no other has."""
        return f"poison{next(self._numbers)}"


def post_all(bootstrap: str, topic: str, records: list[tuple[bytes, int]]) -> list[RecordPlace]:
    """Write values to partitions, and wait until Kafka has them; `BrokerError` if it does not take them."""
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
def open_stage(
    subject: Subject, directory: Path, timeout_secs: float, guarantee: str, brokers: int = 1
) -> Iterator[Stage]:
    """Start servers and processes; whatever happens, end them. `timeout_secs` is the message timeout, `guarantee` is the
    topology's."""
    os.environ[TIMEOUT_VARIABLE] = f"{timeout_secs:g}"  # the processes inherit all of these
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
        reason = stack.enter_context(_small_disk(processes.data_directory(subject.small_disk)))
        stack.callback(processes.kill)
        processes.start()
        small = (
            None
            if reason
            else next(worker for worker in processes.workers if worker.name == subject.small_disk)
        )
        once = processes.topology.config.exactly_once
        yield Stage(
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


@contextmanager
def _small_disk(folder: Path) -> Iterator[str]:
    """Mount a small file system at a folder, if that may be done here; why not, else."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        yield "only root may mount a small disk"
        return
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SMALL_DISK_BYTES}", "kstorm-chaos", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        yield f"a small disk cannot be mounted: {mounted.stderr.strip()}"
        return
    try:
        yield ""
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
