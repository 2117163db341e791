"""A source topic, and the production `KafkaSpout` on it, which reports its emits and offsets.

Checked at each write of an offset to ZooKeeper:

- Every message below it was processed completely in one attempt, or contained nothing to process,
  or is in the dead letters.
- The offset does not go back.
- No process moves it after another has taken over the lock.
- Every offset below it is in a finished range (`tests.sim.finished_topic`), which is true.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, cast

from kstorm.core.dead_letters import decode_letter
from kstorm.kafka import KafkaHosts, KafkaMessageId, KafkaSpout, SpoutConfig
from kstorm.kafka.finished_ranges import FinishedRange
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import KAFKA, KafkaPorts, Partition
from kstorm.runtime.zookeeper.lease import NOTHING
from kstorm.runtime.zookeeper.offset_store import ZooKeeperOffsets
from kstorm.testing.processes import PROCESS, SpoutProcess
from kstorm.topology import Config, Fields, Placed, SpoutOutputCollector, TopologyContext
from tests.sim.async_components import give_way
from tests.sim.components import FIELDS
from tests.sim.finished_topic import FinishedLog, SimulatedWriter
from tests.sim.source_reader import UNDECODABLE, SimulatedSourceReader
from tests.sim.spout_errors import SpoutErrors
from tests.sim.truth import Message, Truth
from tests.sim.zookeeper import SimulatedSession, SimulatedZooKeeper

TOPIC = "source"
_BAD, _LATE, _EMPTY, _NONE, _NARROW = b"bad ", b"late ", b"empty ", b"none ", b"narrow "
_ODD = (_BAD, _LATE, _EMPTY, _NONE, _NARROW)


class SimulatedMessage(NamedTuple):
    """A message with the interface of `SourceMessage`."""

    place: Partition
    at: int
    content: bytes

    def topic(self) -> str:
        return self.place.topic

    def partition(self) -> int:
        return self.place.partition

    def offset(self) -> int:
        return self.at

    @property
    def message(self) -> Message:
        """The message's number."""
        return int(self.content.split()[-1])

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return self.content

    def headers(self) -> None: ...

    def timestamp(self) -> tuple[int, int]:
        return 0, 0


@dataclass(eq=False)
class SourceTopic:
    """The messages, with checks of what happens to them. It outlives every crash."""

    random: Random
    truth: Truth
    partitions: int
    logs: dict[Partition, list[SimulatedMessage]] = field(default_factory=dict)
    undecodable: dict[Partition, list[tuple[int, int]]] = field(default_factory=dict)
    """Undecodable batches: the first offset, and the last plus one."""
    zookeeper: SimulatedZooKeeper = field(init=False)
    finished: FinishedLog = field(init=False)
    letters: Callable[[], Sequence[bytes]] = lambda: ()
    """The records of the dead letters' topic."""
    _trees: defaultdict[tuple[Partition, int], defaultdict[tuple[int, int, int], list[int]]] = (
        field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    )
    _acks: defaultdict[tuple[Partition, int, int, int, int], int] = field(
        default_factory=lambda: defaultdict(int)
    )
    # Undecodable batches that are known to be dead letters.
    _passed: set[tuple[Partition, int]] = field(default_factory=set)
    _lives: int = 0
    done_above: int = 0
    """Number of messages reported as done above a stored offset, counted each time."""
    gives_up: bool = False
    """True if the spout makes a dead letter of a message that keeps failing."""
    _tuples: int = 1
    _opening: Any = None
    _named: bool = False

    def __post_init__(self) -> None:
        self.zookeeper = SimulatedZooKeeper(self.random, self._judge_offset)
        self._named = self.random.random() < 0.5
        self.finished = FinishedLog(self.random, self._judge_range)
        self.logs = {Partition(TOPIC, number): [] for number in range(self.partitions)}
        self.undecodable = {place: [] for place in self.logs}
        odd = self.random.random() < 0.3
        for message in range(self.truth.messages):
            place = Partition(TOPIC, message % self.partitions)
            kind = self.random.choice((*[b""] * 6, *_ODD)) if odd else b""
            self.append(
                place, kind + b"%d" % message, message % 4 if odd and message % 5 == 3 else 0
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> "SourceTopic":
        return self

    def append(self, place: Partition, content: bytes, undecodable: int = 0) -> None:
        """Write a message.

        Sometimes it follows a gap like those of compaction and aborted transactions. Before it is a
        batch of `undecodable` undecodable records.
        """
        log = self.logs[place]
        at = (log[-1].at + 1 if log else 0) + self.random.choice((0, 0, 0, 1, 5))
        if undecodable:
            self.undecodable[place].append((at, at + undecodable))
        log.append(SimulatedMessage(place, at + undecodable, content))

    def spout(self, moods: SpoutErrors) -> "SimulatedKafkaSpout":
        """Return a spout on this topic with a random configuration."""
        choice = self.random.choice
        self._tuples, limit = choice((1, 2)), choice((-1, -1, 2))
        self.gives_up = limit >= 0
        config = SpoutConfig(
            KafkaHosts(),
            TOPIC,
            "/spouts",
            "simulated",
            scheme=_Scheme(self, self._tuples),
            retry_initial_delay_ms=choice((0, 0, 500)),
            retry_limit=limit,
            max_uncommitted_offsets=choice((1, 4, 200_000)),
            state_update_interval_ms=choice((1, 2000)),
        )
        return SimulatedKafkaSpout(self, config, moods)

    @property
    def resources(self) -> dict[str, Any]:
        """The ports for the spouts."""

        def refuse(*_: object) -> Any:
            raise AssertionError("no simulated bolt writes to Kafka")

        return {
            KAFKA: KafkaPorts(
                lambda _: SimulatedSourceReader(self), self._open_offsets, refuse, self._open_writer
            )
        }

    def _open_offsets(self, config: SpoutConfig, context: TopologyContext) -> ZooKeeperOffsets:
        self._opening = context.resources[PROCESS]
        session = SimulatedSession(self.zookeeper, self._opening)
        # Each life of a task has the name of the one before, which may still run.
        name = {"topology": context.topology.name, "component": context.component}
        owner = {**name, "instance": f"{context.task_index}"} if self._named else {}
        return ZooKeeperOffsets(session, config, owner, "", set())

    def _open_writer(self, _: Mapping[str, Any]) -> SimulatedWriter:
        """Return the writer of the spout that has just opened its offsets."""
        return SimulatedWriter(self.finished, self._opening)

    def end(self, place: Partition) -> int:
        """Return the offset after the last record of a partition."""
        return max(
            *(record.at + 1 for record in self.logs[place][-1:]),
            *(end for _, end in self.undecodable[place]),
            0,
            0,
        )

    def start(self, place: Partition) -> int:
        """Return the first offset of a partition."""
        starts = [
            *(record.at for record in self.logs[place][:1]),
            *(first for first, _ in self.undecodable[place][:1]),
        ]
        return min(starts, default=0)

    # Checks.

    def halves(self) -> list[str]:
        """Return the messages of which an attempt emitted only some tuples."""
        trees = self._trees.items()
        return [
            _name(*at)
            for at, attempts in trees
            if any(len(each) != self._tuples for each in attempts.values())
        ]

    def begin_life(self) -> int:
        """Return a number for one run of a spout task, in which epochs and attempts start again."""
        self._lives += 1
        return self._lives

    def emitted(self, life: int, id: KafkaMessageId, emit: int) -> None:
        """Record a new tree of a message."""
        self.truth.attempts[self._message(id.partition, id.offset)].add(
            (life, id.epoch, id.attempt)
        )
        self._trees[id.partition, id.offset][life, id.epoch, id.attempt].append(emit)

    def acked(self, life: int, id: KafkaMessageId) -> None:
        """Record that a spout was notified of a message's completed tree."""
        attempt = (life, id.epoch, id.attempt)
        key = (id.partition, id.offset, *attempt)
        self._acks[key] += 1
        self.truth.acked.add(self._message(id.partition, id.offset))
        done = sum(map(self.truth.done, self._trees[id.partition, id.offset][attempt]))
        if self._acks[key] > done:
            self.truth.violations.append(
                f"{_name(id.partition, id.offset)} was acked, and its tree is open"
            )

    def _judge_offset(self, path: str, before: bytes | None, after: bytes, by: int) -> None:
        partition = Partition(TOPIC, int(path.rpartition("_")[2]))
        if after in (NOTHING, before):
            return
        stored = StoredOffset.from_json(after, partition, path)
        offset = stored.offset
        if before and StoredOffset.from_json(before, partition, path).offset > offset:
            self.truth.violations.append(f"the offset of {_name(*partition)} went back to {offset}")
        root, _, name = path.rpartition("/")
        owner = self.zookeeper.owner(f"{root}/locks/{name}")
        if owner not in (None, by) and self.zookeeper.writers[path] == owner:
            self.truth.violations.append(
                f"the offset of {_name(*partition)} was moved under another's lock"
            )
        self._judge_above(partition, stored)
        gap = self.finished.gap(partition, offset)
        if gap is not None:
            self.truth.violations.append(
                f"the offset of {_name(*partition)} moved to {offset}, and {_name(partition, gap)} is in no finished range"
            )
        letters: set[tuple[int, int]] | None = None
        for record in self.logs[partition]:
            if record.at >= offset:
                break
            message = record.message
            if message in self.truth.finished:
                continue
            if not self._is_done(record):
                letters = self._letters() if letters is None else letters
                if (partition.partition, record.at) not in letters:
                    self.passed(partition, offset, record)
            self.truth.finished.add(message)
        batches = [
            first
            for first, _ in self.undecodable[partition]
            if first < offset and (partition, first) not in self._passed
        ]
        if batches:
            letters = self._letters() if letters is None else letters
            for first in batches:
                if (partition.partition, first) in letters:
                    self._passed.add((partition, first))
                else:
                    self.truth.violations.append(
                        f"{_name(partition, first)} cannot be decoded, and is not among the dead letters"
                    )

    def _judge_above(self, partition: Partition, stored: StoredOffset) -> None:
        """Check that messages reported as done above an offset were processed completely."""
        for start, end in stored.done:
            for record in self.logs[partition]:
                if start <= record.at < end and not self._is_done(record):
                    self.truth.violations.append(
                        f"{_name(partition, record.at)} is stored as done, but is not finished"
                    )
                    return
                self.done_above += start <= record.at < end

    def passed(self, partition: Partition, offset: int, record: SimulatedMessage) -> None:
        """Record that the stored offset moved past an unfinished message."""
        self.truth.violations.append(
            f"the offset of {_name(*partition)} moved to {offset}, and {_name(partition, record.at)} is not finished"
        )

    def _judge_range(self, partition: Partition, found: FinishedRange) -> None:
        """Check a range's counts against the log, and that its acked messages were processed."""
        skipped = sum(skip.end - skip.start for skip in found.skipped)
        there = [record for record in self.logs[partition] if found.start <= record.at < found.end]
        dead = {offset for run in found.dead for offset in range(*run)}
        empty = [record.at for record in there if record.content.startswith(_EMPTY)]
        batches = [
            batch for batch in self.undecodable[partition] if found.start <= batch[0] < found.end
        ]
        passed = [(skip.start, skip.end) for skip in found.skipped if skip.why == UNDECODABLE]
        if passed != [(at + 1, end) for at, end in batches if at + 1 < end]:
            self.truth.violations.append(
                f"{found} should skip what is behind the first of each of {batches}"
            )
        expected = {
            "acked": len(there) - len(empty) - len(dead) + len(batches),
            "absent": found.end - found.start - len(there) - len(batches) - skipped,
            "empty": len(empty),
            "dead": len(dead),
            "skipped": skipped,
        }
        if found.n != {outcome: count for outcome, count in expected.items() if count}:
            self.truth.violations.append(f"{found} should count {expected}")
        letters = self._letters() if dead else set()
        for record in there:
            if record.message in self.truth.finished:
                continue
            done = (
                (partition.partition, record.at) in letters
                if record.at in dead
                else self._is_done(record)
            )
            if not done:
                self.truth.violations.append(
                    f"{found} has {_name(partition, record.at)}, which is not finished"
                )

    def _message(self, partition: Partition, offset: int) -> Message:
        return next(record.message for record in self.logs[partition] if record.at == offset)

    def _is_done(self, record: SimulatedMessage) -> bool:
        if record.content.startswith(_EMPTY):
            return True
        attempts = self._trees[record.place, record.at].values()
        return any(all(map(self.truth.done, emits)) for emits in attempts)

    def _letters(self) -> set[tuple[int, int]]:
        letters = map(decode_letter, self.letters())
        return {(letter.partition, letter.offset) for letter in letters if letter.topic == TOPIC}


class SimulatedKafkaSpout(KafkaSpout):
    """The unchanged spout with the cluster's clock, and a wrapped collector."""

    def __init__(self, topic: SourceTopic, config: SpoutConfig, moods: SpoutErrors) -> None:
        super().__init__(config)
        self._topic, self._moods = topic, moods

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        process: SpoutProcess = context.resources[PROCESS]
        self._clock = lambda: process.world.now
        self._life = self._topic.begin_life()
        super().open(
            config,
            context,
            cast(SpoutOutputCollector, _ReportingCollector(collector, self._topic, self._life)),
        )
        self._moods.sulk(self._topic.truth, "open", context)

    def activate(self) -> None:
        super().activate()
        self._moods.sulk(self._topic.truth, "activate", self.context)

    def deactivate(self) -> None:
        super().deactivate()
        self._moods.sulk(self._topic.truth, "deactivate", self.context)

    def next_tuple(self) -> None:
        super().next_tuple()
        self._moods.speak(self._topic.truth, "next_tuple")

    def ack(self, message_id: KafkaMessageId) -> None:
        """Judge the ack before it counts."""
        self._topic.acked(self._life, message_id)
        super().ack(message_id)
        self._moods.speak(self._topic.truth, "ack")

    def fail(self, message_id: KafkaMessageId) -> None:
        super().fail(message_id)
        self._moods.speak(self._topic.truth, "fail")

    async def close(self) -> None:
        """Close like the spout, but on this thread. Yields to other steps meanwhile. May raise."""
        self._coordinator.commit()
        self._coordinator.close()
        await self._storing.close()
        self._coordinator.abandon()
        await give_way()
        self._shut(1.0)
        self._moods.speak(self._topic.truth, "close")


class _ReportingCollector:
    """A collector that reports its emits."""

    def __init__(self, collector: SpoutOutputCollector, topic: SourceTopic, life: int) -> None:
        self._collector, self._topic, self._life = collector, topic, life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collector, name)

    def emit(self, values: Sequence[Any], message_id: KafkaMessageId, stream: str) -> Sequence[int]:
        targets = self._collector.emit(values, message_id, stream)
        self._topic.truth.sent(values[-1], targets)
        self._topic.emitted(self._life, message_id, values[-1])
        return targets

    def emit_batch(
        self, columns: Sequence[list[Any]], message_ids: Sequence[KafkaMessageId], stream: str
    ) -> Placed:
        placed = self._collector.emit_batch(columns, message_ids, stream)
        self._topic.truth.sent_batch(columns[-1], placed)
        for message_id, emit in zip(message_ids, columns[-1], strict=True):
            self._topic.emitted(self._life, message_id, emit)
        return placed


class _Scheme:
    """Makes some tuples per message, with new numbers at each attempt."""

    output_fields = Fields(*FIELDS)

    def __init__(self, topic: SourceTopic, tuples: int) -> None:
        self._topic, self._tuples = topic, tuples

    def deserialize(self, value: bytes) -> Iterable[Sequence[Any]] | None:
        if value.startswith(_EMPTY):
            return None
        if value.startswith(_BAD):
            raise ValueError("as told")
        emits = [self._topic.truth.new_emit() for _ in range(self._tuples)]
        tuples: list[Any] = [(int(value.split()[-1]), emit, emit) for emit in emits]
        if value.startswith(_LATE):
            return self._raising_amid(tuples)
        if value.startswith((_NONE, _NARROW)):
            tuples[-1] = None if value.startswith(_NONE) else tuples[-1][:1]
        return tuples

    @staticmethod
    def _raising_amid(tuples: list[Any]) -> Iterator[Any]:
        yield from tuples
        raise ValueError("as told")


def _name(partition: Partition | str, offset: int) -> str:
    topic = f"{partition[0]}[{partition[1]}]" if isinstance(partition, Partition) else partition
    return f"{topic}@{offset}"
