"""The topics of a fake Kafka, and what it has been asked and not answered yet."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple
from zlib import crc32

from kstorm.errors import TopicError
from kstorm.kafka.ports import Headers, Partition


class FakeRecord(NamedTuple):
    """A record in a topic, in the shape of `confluent_kafka.Message`."""

    place: Partition
    position: int
    own_key: bytes | None
    body: bytes | None
    created: int = 0
    own_headers: tuple[tuple[str, bytes | None], ...] = ()

    def topic(self) -> str:
        """The topic it is in."""
        return self.place.topic

    def partition(self) -> int:
        """The partition it is in."""
        return self.place.partition

    def offset(self) -> int:
        """Its offset there."""
        return self.position

    def key(self) -> bytes | None:
        """Its key, if it has one."""
        return self.own_key

    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""
        return self.body

    def timestamp(self) -> tuple[int, int]:
        """1, which says that its producer set it, and its Unix time in ms."""
        return 1, self.created

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Its headers; None if it has none."""
        return list(self.own_headers) or None


class Log:
    """The records of one partition. Offsets grow, and may leave gaps."""

    def __init__(self) -> None:
        self.records: list[FakeRecord] = []
        self.undecodable: list[tuple[int, int]] = []
        """Batches that no reader can decode: of each the first offset, and the one behind its last."""
        self.start = self.end = 0

    def append(self, record: FakeRecord) -> None:
        """Adds a record, which knows its offset."""
        self.records.append(record)
        self.end = record.position + 1

    def append_undecodable(self, count: int) -> tuple[int, int]:
        """Adds a batch of so many records that no reader can decode."""
        batch = self.end, self.end + count
        self.undecodable.append(batch)
        self.end += count
        return batch

    def undecodable_from(self, offset: int) -> tuple[int, int] | None:
        """The first such batch that is not before an offset."""
        return next((batch for batch in self.undecodable if offset < batch[1]), None)

    def since(self, offset: int, most: int) -> list[FakeRecord]:
        """The records from an offset on."""
        first = bisect_left(self.records, offset, key=FakeRecord.offset)
        return self.records[first : first + most]

    def first_at(self, time: int) -> int:
        """The offset of the first record at or after a Unix time in ms; the end if there is none."""
        return next(
            (record.position for record in self.records if record.created >= time), self.end
        )

    def expire(self, before: int) -> None:
        """Forgets the records before an offset."""
        self.start = min(max(self.start, before), self.end)
        self.records = self.since(self.start, len(self.records))


class Topics:
    """The topics by name, each a log a partition."""

    def __init__(self) -> None:
        self._logs: dict[Partition, Log] = {}
        self._turn = count()

    def create(self, topic: str, partitions: int) -> None:
        """Adds the partitions that a topic does not have yet. Raises `TopicError` if it has more."""
        have = len(self.partitions(topic))
        if partitions < 1 or partitions < have:
            raise TopicError(
                f"topic {topic!r} with {partitions} partitions: it has {have}, and must have 1 or more"
            )
        for number in range(have, partitions):
            self._logs[Partition(topic, number)] = Log()

    def delete(self, topic: str) -> None:
        """Removes a topic with all that is in it."""
        for partition in self.partitions(topic):
            del self._logs[partition]

    def names(self) -> list[str]:
        """The names of all topics."""
        return sorted({partition.topic for partition in self._logs})

    def partitions(self, topic: str) -> list[Partition]:
        """The partitions of a topic, in order; none if there is no such topic."""
        return sorted(partition for partition in self._logs if partition.topic == topic)

    def find(self, partition: Partition) -> Log | None:
        """The log of a partition, if there is one."""
        return self._logs.get(partition)

    def log(self, topic: str, partition: int) -> Log:
        """The log of a partition. Raises `TopicError` naming what there is."""
        log = self._logs.get(Partition(topic, partition))
        if log is None:
            raise TopicError(
                f"there is no {topic}[{partition}]: the fake Kafka has the topics {', '.join(self.names()) or 'none'}; "
                "add one with create_topic"
            )
        return log

    def choose_partition(self, topic: str, key: bytes | None) -> int:
        """That of a key; without one, each in turn."""
        return (next(self._turn) if key is None else crc32(key)) % max(
            1, len(self.partitions(topic))
        )

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        partition: int | None = None,
        offset: int | None = None,
        created: int = 0,
    ) -> FakeRecord:
        """Adds a record: to the partition of its key, or to each in turn if it has none. Raises `TopicError`."""
        if partition is None:
            partition = self.choose_partition(topic, key)
        log = self.log(topic, partition)
        offset = log.end if offset is None else offset
        if offset < log.end:
            raise TopicError(
                f"{topic}[{partition}] ends at {log.end}: a record at offset {offset} cannot be added"
            )
        record = FakeRecord(Partition(topic, partition), offset, key, value, created, headers)
        log.append(record)
        return record


class Answers:
    """What servers were asked, each with who asked: carried out later, in the order in which it was asked."""

    def __init__(self) -> None:
        self.away = False
        """Whether the servers cannot be reached; then all of it waits."""
        self._waiting: deque[tuple[object, Callable[[], object]]] = deque()

    def later(self, asked_by: object, answer: Callable[[], object]) -> None:
        """Has something done at some later time, never in the call that asks for it."""
        self._waiting.append((asked_by, answer))

    def next(self) -> bool:
        """Does the first thing that waits; whether there is any."""
        if self.away or not self._waiting:
            return False
        self._waiting.popleft()[1]()
        return True

    def all_of(self, asked_by: object) -> None:
        """Does what one has asked, and what comes of it."""
        while not self.away and (own := next(self._of(asked_by), None)) is not None:
            self._waiting.remove(own)
            own[1]()

    def forget(self, asked_by: object) -> None:
        """Whoever asked is gone."""
        self._waiting = deque(waiting for waiting in self._waiting if waiting[0] is not asked_by)

    def _of(self, asked_by: object) -> Iterator[tuple[object, Callable[[], object]]]:
        return (waiting for waiting in self._waiting if waiting[0] is asked_by)


def as_bytes(value: str | bytes | None) -> bytes | None:
    """Text as UTF-8."""
    return value.encode() if isinstance(value, str) else value


def as_headers(headers: Headers | None) -> tuple[tuple[str, bytes | None], ...]:
    """As a record has them."""
    return tuple((name, as_bytes(value)) for name, value in headers or ())
