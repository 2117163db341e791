"""The topics of a fake Kafka, and its unanswered requests."""

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
        """Return the record's topic."""
        return self.place.topic

    def partition(self) -> int:
        """Return the record's partition."""
        return self.place.partition

    def offset(self) -> int:
        """Return the record's offset in its partition."""
        return self.position

    def key(self) -> bytes | None:
        """Return the record's key, or None."""
        return self.own_key

    def value(self) -> bytes | None:
        """Return the record's value. None for a tombstone."""
        return self.body

    def timestamp(self) -> tuple[int, int]:
        """Return the timestamp type and the Unix time in ms. Type 1 means set by the producer."""
        return 1, self.created

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the record's headers, or None if it has none."""
        return list(self.own_headers) or None


class PartitionLog:
    """The records of one partition. Offsets increase and may have gaps."""

    def __init__(self) -> None:
        self.records: list[FakeRecord] = []
        self.undecodable: list[tuple[int, int]] = []
        """Batches that no reader can decode, as (first offset, offset after the last)."""
        self.start = self.end = 0

    def append(self, record: FakeRecord) -> None:
        """Append a record that already has its offset."""
        self.records.append(record)
        self.end = record.position + 1

    def append_unseen(self, count: int) -> None:
        """Append `count` offsets that hold no record for any reader."""
        self.end += count

    def append_undecodable(self, count: int) -> tuple[int, int]:
        """Append a batch of `count` records that no reader can decode."""
        batch = self.end, self.end + count
        self.undecodable.append(batch)
        self.end += count
        return batch

    def undecodable_from(self, offset: int) -> tuple[int, int] | None:
        """Return the first undecodable batch that ends after `offset`."""
        return next((batch for batch in self.undecodable if offset < batch[1]), None)

    def since(self, offset: int, most: int) -> list[FakeRecord]:
        first = bisect_left(self.records, offset, key=FakeRecord.offset)
        return self.records[first : first + most]

    def first_at(self, time: int) -> int:
        """Return the offset of the first record at or after a Unix time in ms, or the end."""
        return next(
            (record.position for record in self.records if record.created >= time), self.end
        )

    def expire(self, before: int) -> None:
        """Delete the records before an offset."""
        self.start = min(max(self.start, before), self.end)
        self.records = self.since(self.start, len(self.records))


class Topics:
    """Topics by name, with one log per partition."""

    def __init__(self) -> None:
        self._logs: dict[Partition, PartitionLog] = {}
        self._turn = count()

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic's missing partitions. Raises `TopicError` if it already has more."""
        have = len(self.partitions(topic))
        if partitions < 1 or partitions < have:
            raise TopicError(
                f"topic {topic!r} has {have} partitions and cannot have {partitions}: give at "
                f"least {max(have, 1)}"
            )
        for number in range(have, partitions):
            self._logs[Partition(topic, number)] = PartitionLog()

    def delete(self, topic: str) -> None:
        for partition in self.partitions(topic):
            del self._logs[partition]

    def names(self) -> list[str]:
        return sorted({partition.topic for partition in self._logs})

    def partitions(self, topic: str) -> list[Partition]:
        """Return the sorted partitions of a topic. Empty if the topic does not exist."""
        return sorted(partition for partition in self._logs if partition.topic == topic)

    def find(self, partition: Partition) -> PartitionLog | None:
        return self._logs.get(partition)

    def log(self, topic: str, partition: int) -> PartitionLog:
        """Return the log of a partition. Raises `TopicError`, naming the topics that exist."""
        log = self._logs.get(Partition(topic, partition))
        if log is None:
            raise TopicError(
                f"there is no {topic}[{partition}]: the fake Kafka has the topics "
                f"{', '.join(self.names()) or 'none'}; add one with create_topic"
            )
        return log

    def choose_partition(self, topic: str, key: bytes | None) -> int:
        """Return the key's partition, or the next in turn without a key."""
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
        """Append a record, by default to the partition of its key, or to each in turn without a
        key.

        Raises `TopicError` if the partition does not exist or already reaches beyond `offset`.
        """
        if partition is None:
            partition = self.choose_partition(topic, key)
        log = self.log(topic, partition)
        offset = log.end if offset is None else offset
        if offset < log.end:
            raise TopicError(
                f"{topic}[{partition}] ends at {log.end}: a record at offset {offset} cannot be "
                "added"
            )
        record = FakeRecord(Partition(topic, partition), offset, key, value, created, headers)
        log.append(record)
        return record


class PendingRequests:
    """Requests to the servers and who asked. They are answered later, in order."""

    def __init__(self) -> None:
        self.away = False
        """True while the servers cannot be reached. All requests then wait."""
        self._waiting: deque[tuple[object, Callable[[], object]]] = deque()

    def later(self, asked_by: object, answer: Callable[[], object]) -> None:
        """Queue an answer. It never runs within the call that asks for it."""
        self._waiting.append((asked_by, answer))

    def next(self) -> bool:
        """Answer the first waiting request. Return False if none waits or the servers are away."""
        if self.away or not self._waiting:
            return False
        self._waiting.popleft()[1]()
        return True

    def all_of(self, asked_by: object) -> None:
        """Answer all requests of one client, including those that the answers cause."""
        while not self.away and (own := next(self._of(asked_by), None)) is not None:
            self._waiting.remove(own)
            own[1]()

    def forget(self, asked_by: object) -> None:
        """Drop the requests of a client that is gone."""
        self._waiting = deque(waiting for waiting in self._waiting if waiting[0] is not asked_by)

    def _of(self, asked_by: object) -> Iterator[tuple[object, Callable[[], object]]]:
        return (waiting for waiting in self._waiting if waiting[0] is asked_by)


def as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def as_headers(headers: Headers | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, as_bytes(value)) for name, value in headers or ())
