"""A `KafkaSpout`'s reports on its offsets with exactly-once processing.

It runs on a fake Kafka. A judge checks each finished range and each stored offset:

- A range is true when it arrives, and contains only committed offsets.
- An offset goes to ZooKeeper after the ranges below it.
- In the end the whole source is in ranges, and each processable message was processed once.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from kstorm.errors import KstormError
from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.kafka.finished_ranges import FinishedRange
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Partition
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka
from kstorm.testing.world import discard_narration
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    Fields,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.topology.config import EXACTLY_ONCE
from tests.sim.exactly_once.components import End, RandomErrors
from tests.sim.exactly_once.world import expect, expect_once, rows, strike
from tests.sim.finished_topic import FinishedLog
from tests.sim.schedule import ScheduleReport, ViolationError

_SOURCE = "lines"
_SPOUT = "spout"
_PARTITIONS = 2
_MESSAGES = 12
_FAULTS = 60
_ROUNDS = 80  # seconds of calm, at most
_BAD, _EMPTY = b"bad ", b"empty "

Lines = dict[int, bytes]
"""The messages of one partition by offset."""


class Numbers:
    """A scheme that reads the number of a message, if it contains nothing else."""

    output_fields = Fields("id")

    def deserialize(self, value: bytes) -> Iterable[Sequence[Any]] | None:
        """Return nothing for an empty message. Raises on a bad one."""
        return None if value.startswith(_EMPTY) else [(int(value),)]


class Pass(BasicBolt):
    """Emits its input numbers."""

    def __init__(self, trouble: RandomErrors) -> None:
        self._trouble = trouble

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """May raise after its emit."""
        collector.emit((tuple["id"],))
        self._trouble.maybe()


def explore_ranges(seed: int, tell: Callable[[str], None] = discard_narration) -> ScheduleReport:
    """Run the schedule of a seed. Raises `ViolationError`."""
    report = ScheduleReport(seed, _MESSAGES, steps=_FAULTS)
    random = Random(f"ranges {seed}")
    topology, kafka = _topology(random), FakeKafka({_SOURCE: _PARTITIONS})
    logs = _produce(kafka, random)
    with kafka.cluster(topology, seed, tell=tell, at_once=random.random() < 0.5) as cluster:
        judge = _Judge(cluster, logs, random)
        kafka.refuse, kafka._nodes.data = judge.refuse, _Nodes(judge.stored)
        try:
            cluster.disturb(unanswered=random.choice((0.0, 0.1)))
            report.faults = _among_faults(kafka, cluster, judge, random)
            _in_calm(kafka, cluster, judge)
            judge.reckon()
        except (ViolationError, KstormError) as error:
            raise ViolationError(f"seed {seed}: {error}") from None
        report.seen, report.seconds = cluster.seen + judge.seen, cluster.now
    return report


def _topology(random: Random) -> Topology:
    config = Config(
        topology_processing_guarantee=EXACTLY_ONCE,
        topology_acker_executors=random.choice((0, 1, 2)),
        topology_acker_tasks=2,
        topology_bolt_retry_limit=1000,
        topology_bolt_retry_initial_delay_ms=10,
        topology_bolt_retry_delay_max_ms=100,
    )
    source = SpoutConfig(
        KafkaHosts(),
        _SOURCE,
        "/spouts",
        "simulated",
        scheme=Numbers(),
        max_uncommitted_offsets=random.choice((1, 4, 200_000)),
        state_update_interval_ms=random.choice((1, 500)),
    )
    builder = TopologyBuilder("ranges", config)
    builder.set_spout(_SPOUT, KafkaSpout(source), random.choice((1, 2))).set_num_tasks(2)
    passing = builder.set_bolt(
        "pass", Pass(RandomErrors(Random(random.random()))), random.choice((1, 2))
    ).set_num_tasks(2)
    passing.shuffle_grouping(_SPOUT)
    builder.set_bolt("end", End()).shuffle_grouping("pass")
    return builder.build()


def _produce(kafka: FakeKafka, random: Random) -> dict[Partition, Lines]:
    """Write messages, some empty, some unreadable, with gaps as from compaction and markers."""
    logs: dict[Partition, Lines] = {Partition(_SOURCE, number): {} for number in range(_PARTITIONS)}
    for number in range(_MESSAGES):
        partition = Partition(_SOURCE, number % _PARTITIONS)
        log = logs[partition]
        at = max(log, default=-1) + 1 + random.choice((0, 0, 0, 1, 5))
        log[at] = random.choice((b"", b"", b"", _BAD, _EMPTY)) + b"%d" % number
        kafka.produce(_SOURCE, log[at], partition=partition.partition, offset=at)
    return logs


def _among_faults(
    kafka: FakeKafka, cluster: LocalCluster, judge: "_Judge", random: Random
) -> Counter[str]:
    struck: Counter[str] = Counter()
    judge.lossy = random.choice((0.0, 0.5))
    names = [
        _SPOUT,
        _SPOUT,
        *cluster.topology.components,
        *(["acker"] if cluster.topology.config.acker_tasks else []),
    ]
    for _ in range(_FAULTS):
        for _ in range(random.randint(1, 12)):
            cluster.step()
        match random.randrange(12):
            case 0:
                kafka.away = not kafka.away
                struck["servers away"] += kafka.away
            case 1:
                judge.lossy = random.choice((0.0, 0.5))
            case _:
                struck[strike(cluster, random.choice(names), random)] += 1
    return struck


def _in_calm(kafka: FakeKafka, cluster: LocalCluster, judge: "_Judge") -> None:
    kafka.away, judge.lossy = False, 0.0
    cluster.disturb()
    cluster.heal()
    cluster.bury()
    for _ in range(_ROUNDS):
        cluster.advance_time(1.0)
        if judge.all_stored:
            break


class _Nodes(dict[str, bytes]):
    """The offsets in ZooKeeper. A judge is called before each write."""

    def __init__(self, judge: Callable[[str, bytes], object]) -> None:
        self._judge = judge

    def __setitem__(self, path: str, data: bytes) -> None:
        self._judge(path, data)
        super().__setitem__(path, data)


class _Judge:
    """Knows the content of each offset."""

    def __init__(self, cluster: LocalCluster, logs: dict[Partition, Lines], random: Random) -> None:
        self._cluster, self._logs, self._random = cluster, logs, random
        self._topology = cluster.topology
        self._world = cluster.processes(_SPOUT)[0].world
        self._ranges = FinishedLog(random, self._judge_range)
        self._at: defaultdict[Partition, int] = defaultdict(int)
        self._violations: list[str] = []
        self.lossy = 0.0
        """Probability that a range is refused. Half of those are in the topic nevertheless."""
        self.seen: Counter[str] = Counter()

    @property
    def all_stored(self) -> bool:
        """True once the offsets have reached the end."""
        return all(self._at[partition] > max(log) for partition, log in self._logs.items())

    def reckon(self) -> None:
        """Check the final state."""
        expect(not self._violations, "; ".join(self._violations[:3]))
        expect(self.all_stored, f"stored are {dict(self._at)} of {self._logs}")
        good = [
            int(value) for log in self._logs.values() for value in log.values() if value.isdigit()
        ]
        expect_once("messages", self._out(), good)
        expect_once(
            "letters",
            self._letters(),
            [(p.partition, at) for p in self._logs for at in self._of(p, _BAD)],
        )

    def refuse(self, topic: str, key: bytes | None, value: bytes | None) -> str | None:
        """Receive a record. Return an error if it is refused."""
        if topic != self._topology.finished_topic:
            return None
        refused = self._random.random() < self.lossy
        self.seen["finished range refused"] += refused
        if not refused or self._random.random() < 0.5:
            self._ranges.arrive(value or b"")
        return "as told" if refused else None

    def stored(self, path: str, data: bytes) -> None:
        """Judge an offset that is written to ZooKeeper."""
        partition = Partition(_SOURCE, int(path.rpartition("_")[2]))
        offset = StoredOffset.from_json(data, partition, path).offset
        if offset < self._at[partition]:
            self._violations.append(f"the offset of {partition} went back to {offset}")
        self._at[partition] = offset
        gap = self._ranges.gap(partition, offset)
        if gap is not None:
            self._violations.append(
                f"the offset of {partition} moved to {offset}, and {gap} is in no finished range"
            )

    def _judge_range(self, partition: Partition, found: FinishedRange) -> None:
        position = self._world.position(_SPOUT, partition)
        if position is not None and found.end > max(position, 0):
            self._violations.append(f"{found} goes beyond the position {position}")
        if sum(found.n.values()) != found.end - found.start:
            self._violations.append(f"{found} does not count all")
        dead = {offset for run in found.dead for offset in range(*run)}
        if not {(partition.partition, offset) for offset in dead} <= set(self._letters()):
            self._violations.append(f"{found} has dead letters that are not there")
        if self._topology.config.acker_tasks:
            self._judge_counts(partition, found)
        self.seen["committed by a former life"] += bool(
            found.n.get("committed") and found.n.get("acked")
        )

    def _judge_counts(self, partition: Partition, found: FinishedRange) -> None:
        """Check the counts of a range. It begins with the offsets that an earlier run committed."""
        start = found.start + found.n.get("committed", 0)
        there = {
            at: value for at, value in self._logs[partition].items() if start <= at < found.end
        }
        expected = Counter(_outcome(value) for value in there.values())
        expected["absent"] = found.end - start - len(there)
        if Counter(found.n) != expected + Counter(committed=start - found.start):
            self._violations.append(f"{found} should count {expected}")
        out = self._out()
        unfinished = [
            value for value in there.values() if value.isdigit() and int(value) not in out
        ]
        if unfinished:
            self._violations.append(f"{found} has {unfinished}, which are not processed")

    def _of(self, partition: Partition, kind: bytes) -> list[int]:
        return [at for at, value in self._logs[partition].items() if value.startswith(kind)]

    def _out(self) -> list[int]:
        return [number for (number,) in rows(self._cluster, self._topology.bolt_topic("end"))]

    def _letters(self) -> list[tuple[int, int]]:
        return [(letter.partition, letter.offset) for letter in self._cluster.dead_letters]


def _outcome(value: bytes) -> str:
    return "dead" if value.startswith(_BAD) else "empty" if value.startswith(_EMPTY) else "acked"
