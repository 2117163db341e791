"""`AT_MOST_ONCE` in processes that crash and lose their sessions and answers.

The spouts, the store and the leases are the production ones. Kafka and ZooKeeper are simulated.
Checked at each emit: no message is emitted twice, by any process. In the end the offset is after
the last message. If every process ended in an orderly way and kept its session, no message is
missing.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, cast

from kazoo.exceptions import NoNodeError

from kstorm.errors import BrokerError
from kstorm.kafka import KAFKA, KafkaHosts, KafkaPorts, KafkaSpout, ProcessingGuarantee, SpoutConfig
from kstorm.kafka.finished_ranges import FinishedRange
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import OffsetStore, Partition
from kstorm.runtime.zookeeper.lease import NOTHING
from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsets
from kstorm.testing.scheduler import Step
from kstorm.topology import Config, Placed, SpoutOutputCollector, TopologyBuilder, TopologyContext
from tests.sim.finished_topic import SimulatedWriter
from tests.sim.kafka_source import TOPIC, SourceTopic
from tests.sim.source_reader import SimulatedSourceReader
from tests.sim.truth import Truth
from tests.sim.zookeeper import SimulatedSession

_PROCESSES = 2
_STEPS = 120
_CALM_STEPS = 400
_PARTITION = Partition(TOPIC, 0)
_CONFIG = SpoutConfig(
    KafkaHosts(),
    TOPIC,
    "/spouts",
    "at-most-once",
    processing_guarantee=ProcessingGuarantee.AT_MOST_ONCE,
)


class AtMostOnceError(AssertionError):
    """A message was emitted twice, or is missing without need."""


class EmissionLog:
    """A collector for all processes that knows what was emitted."""

    capacity = 1_000_000

    def __init__(self, seed: int) -> None:
        self.seen: set[bytes] = set()
        self.twice: list[bytes] = []
        self._seed = seed

    def emit(
        self,
        values: Sequence[Any],
        message_id: Any = None,
        stream: str = "",
        task: int | None = None,
    ) -> Any:
        # Reported later: an exception here would mean that the message cannot be emitted.
        if values[0] in self.seen:
            self.twice.append(values[0])
        self.seen.add(values[0])
        return (1,)

    def emit_batch(
        self, columns: Sequence[list[Any]], message_ids: Any = None, stream: str = ""
    ) -> Placed:
        for values in zip(*columns, strict=True):
            self.emit(values)
        return []

    def check(self) -> None:
        """Raise `AtMostOnceError` if a message was emitted twice."""
        if self.twice:
            raise AtMostOnceError(f"seed {self._seed}: {self.twice[0]!r} was emitted twice")

    def dead_letter(self, reason: str, **letter: Any) -> None:
        """Store the letter immediately."""
        letter["on_stored"]()

    def report_error(self, error: BaseException) -> None:
        """Only refused ranges are expected errors here."""
        if not isinstance(error, BrokerError):
            raise error


class SpoutProcess:
    """A process that runs the only task of the spout."""

    def __init__(self, topic: SourceTopic, emissions: EmissionLog) -> None:
        self.background: list[Callable[[], list[Step]]] = []
        self.dead = self.zombie = False
        self.now = 0.0
        self.session = SimulatedSession(topic.zookeeper, self)
        self.spout = KafkaSpout(_CONFIG, lambda: self.now)

        def open_offsets(config: SpoutConfig, context: TopologyContext) -> OffsetStore:
            name = {"topology": "simulated", "component": "source", "instance": "source-0"}
            return ZooKeeperOffsets(self.session, config, name, "", set())

        self.writer = SimulatedWriter(topic.finished, self)

        def refuse(*_: object) -> Any:
            raise AssertionError("a spout has a writer of its own")

        builder = TopologyBuilder("simulated")
        builder.set_spout("source", self.spout)
        resources = {
            KAFKA: KafkaPorts(
                lambda _: SimulatedSourceReader(topic), open_offsets, refuse, lambda _: self.writer
            )
        }
        context = TopologyContext(builder.build(), "source", 0, resources)
        self.spout.open(Config(), context, cast(SpoutOutputCollector, emissions))

    def wake(self) -> None:
        """No process sleeps here."""

    def ask_again(self) -> None:
        """The spout is always asked."""

    def step(self, random: Random) -> None:
        """Run a step of either the session or the spout."""
        steps = self.session.ready() + self.writer.ready()
        if steps and random.random() < 0.5:
            random.choice(steps)()
        else:
            self.now += random.choice((0.001, 1.0))
            self.spout.next_tuple()

    @property
    def emitted_to(self) -> int:
        """The last emitted offset plus one, or -1 if the process does not own the partition."""
        manager = self.spout._coordinator.manager(_PARTITION)
        return -1 if manager is None else manager.next_offset

    def end(self) -> None:
        """End in an orderly way."""
        self.spout._coordinator.close()
        self.writer.flush()
        self.spout._coordinator.abandon()
        self.spout._shut(1.0)


def explore_at_most_once(seed: int) -> None:
    """Run one random schedule from a seed. Raises `AtMostOnceError`."""
    random = Random(f"at most once {seed}")
    topic = SourceTopic(random, Truth(messages=random.randint(1, 20)), 1)
    log = topic.logs[_PARTITION]
    log[:] = [record._replace(content=b"%d" % record.at) for record in log]
    emissions = EmissionLog(seed)
    gentle = random.random() < 0.3
    topic.zookeeper.lossy = 0.0 if gentle else random.choice((0.0, 0.1, 0.3))
    topic.finished.lossy = topic.zookeeper.lossy
    topic.finished.judge = lambda partition, found: _check_claims(found)
    processes = [SpoutProcess(topic, emissions) for _ in range(_PROCESSES)]
    for _ in range(_STEPS):
        number, chance = random.randrange(_PROCESSES), random.random()
        if chance < 0.8:
            processes[number].step(random)
        elif chance < 0.88:
            topic.append(_PARTITION, b"%d" % (1000 + len(log)))
        elif chance < 0.92:
            processes[number].end()
            processes[number] = SpoutProcess(topic, emissions)
        elif not gentle and chance < 0.96 and topic.zookeeper.sessions:
            topic.zookeeper.expire(random.choice(list(topic.zookeeper.sessions)))
        elif not gentle:
            processes[number].dead = True
            processes[number] = SpoutProcess(topic, emissions)
        emissions.check()
        _check_coverage(topic, seed)
    _calm_down(topic, processes, random, seed)
    emissions.check()
    if gentle and len(emissions.seen) < len(log):
        raise AtMostOnceError(
            f"seed {seed}: {len(log) - len(emissions.seen)} messages are missing, although no process died"
        )


def _check_claims(found: FinishedRange) -> None:
    """Only `claimed` and `skipped` are known about claimed messages."""
    if found.n.keys() - {"claimed", "skipped"}:
        raise AtMostOnceError(f"{found} contains more than can be known")


def _check_coverage(topic: SourceTopic, seed: int) -> None:
    stored = _stored(topic)
    gap = None if stored is None else topic.finished.gap(_PARTITION, stored)
    if gap is not None:
        raise AtMostOnceError(
            f"seed {seed}: {stored} is stored, and offset {gap} is in no finished range"
        )


def _calm_down(
    topic: SourceTopic, processes: Sequence[SpoutProcess], random: Random, seed: int
) -> None:
    topic.zookeeper.lossy = topic.finished.lossy = 0.0
    topic.zookeeper.expire_the_dead()
    end = topic.logs[_PARTITION][-1].at + 1
    for _ in range(_CALM_STEPS):
        for process in processes:
            process.step(random)
        if any(process.emitted_to == end for process in processes) and _stored(topic) == end:
            break
    if (stored := _stored(topic)) != end:
        raise AtMostOnceError(
            f"seed {seed}: the offset stays at {stored}, and the log ends at {end}"
        )


def _stored(topic: SourceTopic) -> int | None:
    path = f"{_CONFIG.zk_path}/partition_0"
    try:
        data, _ = topic.zookeeper.read(path, None)
    except NoNodeError:
        return None
    return None if data == NOTHING else StoredOffset.from_json(data, _PARTITION, path).offset
