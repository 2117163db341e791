"""Kafka and ZooKeeper in memory for the tests of `kstorm.kafka`, without waits and with faults."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from kstorm.errors import FencedError, KstormError
from kstorm.kafka import (
    EARLIEST_TIME,
    KAFKA,
    LATEST_TIME,
    KafkaHosts,
    KafkaPorts,
    KafkaSpout,
    SpoutConfig,
    StoredOffset,
)
from kstorm.kafka.finished_ranges import FinishedRange, decode_range
from kstorm.kafka.ports import (
    Broker,
    Headers,
    OnBatchDelivery,
    OnDelivery,
    Ownership,
    Partition,
    RecordColumn,
    SourceFault,
    SourceMessage,
)
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    Note,
    Spout,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)
from tests.spout_collector import SpoutCollector

TOPIC = "sentences"


@dataclass
class Letter:
    """A dead letter as the collector received it."""

    reason: str
    value: bytes | None
    key: bytes | None
    topic: str
    partition: int
    offset: int
    attempts: int
    stored: Callable[[], None]
    kind: str
    error: Note | None
    headers: list[tuple[str, str | None]]
    timestamp: int


@dataclass
class FakeCollector(SpoutCollector):
    """Records emits.

    With `tracking` off it acks within `emit`, which is the earliest possible time.
    """

    emitted: list[tuple[list[Any], Any, str]] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    at_once: Callable[[Any], object] | None = None
    refuse: Exception | None = None

    def emit(
        self,
        values: Sequence[Any],
        message_id: Any = None,
        stream: str = "default",
        task: int | None = None,
    ) -> Sequence[int]:
        if self.refuse is not None:
            raise self.refuse
        self.emitted.append((list(values), message_id, stream))
        self.capacity -= 1
        if self.at_once is not None:
            self.at_once(message_id)
        return (1,)

    def dead_letter(self, reason: str, **letter: Any) -> None:
        self.letters.append(Letter(reason, stored=letter.pop("on_stored"), **letter))

    def take(self) -> list[tuple[int, Any]]:
        """Returns the emits since the last call as pairs of offset and message id."""
        emitted, self.emitted = self.emitted, []
        return [(id.offset, id) for _, id, _ in emitted]


@dataclass
class FakeSource:
    """A topic in memory that keeps the contract `tests.source_contract`, as the real reader does.

    The second call of a look-up returns its answer. A partition whose offset is out of range is not
    read any further. Pausing a partition that is not assigned is a caller's error. The log's end is
    known only after a read.
    """

    logs: dict[Partition, list[SourceMessage]] = field(default_factory=dict)
    starts: dict[Partition, int] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    """Offsets by Unix time, for every partition."""
    positions: dict[Partition, int] = field(default_factory=dict)
    paused: set[Partition] = field(default_factory=set)
    committed: dict[Partition, int] = field(default_factory=dict)
    waiting_faults: list[SourceFault] = field(default_factory=list)
    refreshes: int = 0
    leader: Broker = field(default_factory=lambda: Broker("broker", 9092))
    closed: bool = False
    stuck: set[Partition] = field(default_factory=set)
    """Partitions assigned at a missing offset, or before an undecodable batch."""
    undecodable: dict[Partition, list[tuple[int, int]]] = field(default_factory=dict)
    """The undecodable batches: the first offset, and the one after the last."""
    unseen: dict[Partition, int] = field(default_factory=dict)
    """The ends of partitions whose last offsets have no message, such as transaction markers."""
    reached: dict[Partition, int] = field(default_factory=dict)
    _asked: set[tuple[Partition, int]] = field(default_factory=set)
    _answer: Mapping[Partition, Broker] | None = None
    _ends: dict[Partition, int] = field(default_factory=dict)

    def produce(
        self,
        partition: int,
        *offsets: int,
        body: bytes | None = b"text",
        topic: str = TOPIC,
        timestamp: int = 0,
    ) -> None:
        """Appends messages with these offsets, which may have gaps."""
        log = self.logs.setdefault(Partition(topic, partition), [])
        stamp: Any = {"timestamp": (TIMESTAMP_CREATE_TIME, timestamp)} if timestamp else {}
        log.extend(
            cast("SourceMessage", Message(topic, partition, offset, None, body, **stamp))
            for offset in offsets
        )

    def produce_undecodable(self, partition: int, count: int) -> None:
        """Appends a batch of `count` messages that no reader can decode."""
        place = self.at(partition)
        self.logs.setdefault(place, [])
        end = self.end(place)
        self.undecodable.setdefault(place, []).append((end, end + count))

    def refresh(self, topic: str) -> None:
        self.refreshes += 1
        self._answer = dict.fromkeys(sorted(self.logs), self.leader)

    def partitions(self, topic: str) -> Mapping[Partition, Broker] | None:
        return self._answer

    def offset_for(self, partition: Partition, time: int) -> int | None:
        if (partition, time) not in self._asked:
            self._asked.add((partition, time))
            return None
        self._asked.discard((partition, time))
        if time == EARLIEST_TIME:
            return self.starts.get(partition, 0)
        return self.end(partition) if time == LATEST_TIME else self.times[time]

    def assign(self, partition: Partition, offset: int) -> None:
        self.unassign(partition)
        self.positions[partition] = offset

    def unassign(self, partition: Partition) -> None:
        self._asked = {asked for asked in self._asked if asked[0] != partition}
        self.positions.pop(partition, None)
        self.waiting_faults = [
            f for f in self.waiting_faults if f.undecodable is None or f.partition != partition
        ]
        self.stuck.discard(partition)
        self.paused.discard(partition)
        self.reached.pop(partition, None)

    def pause(self, partition: Partition) -> None:
        assert partition in self.positions, f"{partition} is paused, but not assigned"
        self.paused.add(partition)

    def resume(self, partition: Partition) -> None:
        assert partition in self.positions, f"{partition} is resumed, but not assigned"
        self.paused.discard(partition)

    def read(self, max_messages: int) -> Sequence[SourceMessage]:
        found: list[SourceMessage] = []
        for partition, position in self.positions.items():
            if partition in self.paused | self.stuck or partition not in self.logs:
                continue
            end = self._ends[partition] = self.end(partition)
            if not self.starts.get(partition, 0) <= position <= end:
                self.stuck.add(partition)
                self.waiting_faults.append(
                    SourceFault("no such offset", partition, out_of_range=True)
                )
                continue
            batches = [
                batch for batch in self.undecodable.get(partition, ()) if position < batch[1]
            ]
            before = batches[0][0] if batches else end
            new = [m for m in self.logs[partition] if position <= (m.offset() or 0) < before][
                : max_messages - len(found)
            ]
            found += new
            if batches and not new and len(found) < max_messages:
                self.stuck.add(partition)
                self.waiting_faults.append(
                    SourceFault("as told", partition, undecodable=batches[0])
                )
            if new:
                self.positions[partition] = new[-1].offset() + 1
            elif not batches and len(found) < max_messages:
                self.reached[partition] = self.positions[partition] = end
        return found

    def ends_reached(self) -> Mapping[Partition, int]:
        reached, self.reached = self.reached, {}
        return reached

    def faults(self) -> Sequence[SourceFault]:
        faults, self.waiting_faults = self.waiting_faults, []
        return faults

    def end_offset(self, partition: Partition) -> int | None:
        return self._ends.get(partition)

    def end(self, partition: Partition) -> int:
        """The offset after the last message."""
        log = self.logs.get(partition)
        batch = max((end for _, end in self.undecodable.get(partition, ())), default=0)
        unseen = self.unseen.get(partition, 0)
        return max(batch, unseen, log[-1].offset() + 1 if log else self.starts.get(partition, 0))

    def at(self, partition: int) -> Partition:
        """Returns a partition of the tests' topic."""
        return Partition(TOPIC, partition)

    def commit(self, partition: Partition, offset: int) -> None:
        self.committed[partition] = offset

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeOffsets:
    """A ZooKeeper that grants a lock at the second call, unless `standing` overrides it."""

    stored: dict[Partition, StoredOffset] = field(default_factory=dict)
    standing: dict[Partition, Ownership] = field(default_factory=dict)
    released: list[Partition] = field(default_factory=list)
    trouble: KstormError | None = None
    flushed: bool = False
    closed: bool = False
    unreadable: KstormError | None = None
    slow: bool = False
    """If True, saved offsets stay under way until the test calls `arrive`."""
    under_way: dict[Partition, StoredOffset] = field(default_factory=dict)
    saved: list[int] = field(default_factory=list)
    """The saved offsets."""

    def acquire(self, partition: Partition) -> Ownership:
        if partition in self.standing:
            return self.standing[partition]
        self.standing[partition] = Ownership.HELD
        return Ownership.WAITING

    def load(self, partition: Partition) -> StoredOffset | None:
        if self.unreadable is not None:
            raise self.unreadable
        return self.stored.get(partition)

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        if self.standing.get(partition) is Ownership.FENCED:
            raise FencedError("another has it")
        self.saved.append(stored.offset)
        (self.under_way if self.slow else self.stored)[partition] = stored

    def arrive(self) -> None:
        self.stored.update(self.under_way)
        self.under_way.clear()

    def stored_offset(self, partition: Partition) -> int | None:
        stored = self.stored.get(partition)
        return None if stored is None else stored.offset

    def release(self, partition: Partition) -> None:
        self.standing.pop(partition, None)
        self.released.append(partition)

    def flush(self, timeout: float) -> bool:
        self.flushed = True
        return True

    def problem(self) -> KstormError | None:
        return self.trouble

    def close(self) -> None:
        self.closed = True

    def offset(self, partition: int = 0) -> int | None:
        stored = self.stored.get(Partition(TOPIC, partition))
        return None if stored is None else stored.offset


@dataclass
class FakeWriter:
    """Stores written records until the test reports the broker's answer."""

    records: list[tuple[str, bytes | None, bytes | None, OnDelivery]] = field(default_factory=list)
    batches: list[tuple[str, list[Any], list[Any], OnBatchDelivery]] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    """The headers of the records that have some, in order."""
    closed: bool = False
    finished: list[FinishedRange] = field(default_factory=list)
    """The finished ranges that are in Kafka."""
    refuses: str = ""
    """The reason why the writer refuses finished ranges."""
    holds: bool = False
    """If True, finished ranges are added to `records`, so that the test reports the answer."""

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        self.headers += headers or []
        self.batches.append((topic, list(keys), list(values), on_done))

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: OnDelivery,
        headers: Headers | None = None,
    ) -> None:
        self.headers += [headers] if headers is not None else []
        if not topic.endswith(".__finished") or self.holds:
            self.records.append((topic, key, value, on_delivery))
            return
        if not self.refuses:
            self.finished.append(decode_range(value or b""))
        on_delivery(self.refuses or None, None)

    async def close(self) -> None:
        self.closed = True


class Sink(BasicBolt):
    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Drops the tuple."""


@dataclass
class World:
    """A spout task with its surroundings."""

    source: FakeSource = field(default_factory=FakeSource)
    offsets: FakeOffsets = field(default_factory=FakeOffsets)
    collector: FakeCollector = field(default_factory=FakeCollector)
    writer: FakeWriter = field(default_factory=FakeWriter)
    own_writers: list[Mapping[str, Any]] = field(default_factory=list)
    topology_id: str | None = "words-1"
    now: float = 100.0

    @property
    def ports(self) -> KafkaPorts:
        def open_writer(properties: Mapping[str, Any]) -> FakeWriter:
            self.own_writers.append(properties)
            return self.writer

        return KafkaPorts(
            lambda config: self.source,
            lambda config, context: self.offsets,
            lambda: self.writer,
            open_writer,
            topology_id=self.topology_id,
        )

    def context(self, spout: Spout, tasks: int = 1, index: int = 0) -> TopologyContext:
        builder = TopologyBuilder("words")
        builder.set_spout("lines", spout, tasks)
        builder.set_bolt("sink", Sink()).shuffle_grouping("lines")
        return TopologyContext(builder.build(), "lines", index, {KAFKA: self.ports})

    def open(self, *, tasks: int = 1, index: int = 0, **settings: Any) -> KafkaSpout:
        """Opens a spout with these `SpoutConfig` settings. Failed messages are retried at once."""
        settings.setdefault("retry_initial_delay_ms", 0)
        hosts, topic = settings.pop("hosts", KafkaHosts()), settings.pop("topic", TOPIC)
        spout = KafkaSpout(
            SpoutConfig(hosts, topic, "/kafka-spouts", "words", **settings), clock=lambda: self.now
        )
        spout.open(Config(), self.context(spout, tasks, index), self.collector)
        return spout

    def run(self, spout: KafkaSpout, calls: int = 5) -> list[int]:
        """Calls `next_tuple` a few times, and returns the emitted offsets."""
        for _ in range(calls):
            spout.next_tuple()
        return [offset for offset, _ in self.collector.take()]

    def run_ids(self, spout: KafkaSpout, calls: int = 5) -> dict[int, Any]:
        """Calls the spout as `run` does, and returns the message ids by offset."""
        for _ in range(calls):
            spout.next_tuple()
        return dict(self.collector.take())

    def commit(self, spout: KafkaSpout) -> None:
        """Advances the clock past the interval for storing offsets."""
        self.now += 2.0
        spout.next_tuple()


@pytest.fixture
def collector() -> FakeCollector:
    """Provide a collector that records its input."""
    return FakeCollector()


@pytest.fixture
def world() -> World:
    """Provide an empty topic, an empty ZooKeeper and a collector."""
    return World()
