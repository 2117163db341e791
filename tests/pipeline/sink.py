"""A sink topic as a word count's KafkaBolt writes it, and the expected tables in plain Python."""

import json
import time
import uuid
import zlib
from collections import Counter
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

NOON = 1_700_000_000_000 - 1_700_000_000_000 % 3_600_000
"""The start of an hour, in milliseconds: where the records' Kafka timestamps begin."""
MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class Record:
    """A record in the topic. `word`, `count` and `id` are None if it is malformed."""

    key: bytes | None
    value: bytes | None
    at: int
    """The Kafka timestamp in milliseconds."""
    word: str | None = None
    count: int | None = None
    id: str | None = None
    headers: dict[str, bytes] = field(default_factory=dict)
    partition: int = -1
    offset: int = -1


class Sink:
    """A separate topic, and all records written to it, in order."""

    def __init__(self, bootstrap: str, partitions: int = 3) -> None:
        self.bootstrap, self.topic, self.partitions = (
            bootstrap,
            f"sink-{uuid.uuid4().hex[:8]}",
            partitions,
        )
        self.records: list[Record] = []
        self._counts: Counter[str] = Counter()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._create()

    def _create(self) -> None:
        # The timestamps below are of 2023, and some of long after.
        config = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
        self._admin.create_topics([NewTopic(self.topic, self.partitions, 1, config=config)])[
            self.topic
        ].result(30)

    def make_anew(self) -> None:
        """Delete and recreate the topic. Earlier records do not count any more."""
        self.flush()
        self._admin.delete_topics([self.topic])[self.topic].result(30)
        deadline = time.monotonic() + 60
        while self.topic in self._admin.list_topics(timeout=30).topics:
            assert time.monotonic() < deadline, "the topic is not deleted"
        self._create()
        self._producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "log_level": 0}
        )
        self.records.clear()

    def sentence(self, source_offset: int, words: str, *, at: int = NOON) -> None:
        """Write a record for each word of a sentence, with increasing counts. The same offset again
        is a replay."""
        for position, word in enumerate(words.split()):
            self.word(word, f"sentences-0-{source_offset}-{position}", at=at)

    def word(self, word: str, occurrence: str, *, at: int = NOON) -> None:
        """Write the next count of a word for an occurrence with any id."""
        self._counts[word] += 1
        body = {"word": word, "count": self._counts[word], "id": occurrence, "emitted_at": at - 5}
        value = json.dumps(body).encode()
        self._write(
            Record(word.encode(), value, at, word, body["count"], occurrence, {"root": b"\x01"})  # type: ignore[arg-type]
        )

    def traced(
        self,
        word: str,
        source_offset: int,
        position: str,
        body_id: str | None = None,
        **headers: bytes,
    ) -> None:
        """Write the next count of a word with its lineage as headers, and any id or none in the
        record. `headers` override parts of the lineage. b"" removes a part."""
        self._counts[word] += 1
        named = {
            "topic": b"sentences",
            "partition": b"0",
            "offset": b"%d" % source_offset,
            "part": position.encode(),
        }
        written = {
            f"kstorm-source-{name}": value for name, value in (named | headers).items() if value
        }
        body = {"word": word, "count": self._counts[word], "emitted_at": NOON - 5}
        value = json.dumps(body if body_id is None else {**body, "id": body_id}).encode()
        whole = body_id if headers else f"sentences-0-{source_offset}-{position}"
        if whole is None:
            self._write(Record(word.encode(), value, NOON, headers=written))
        else:
            self._write(Record(word.encode(), value, NOON, word, body["count"], whole, written))  # type: ignore[arg-type]

    def malformed(self, value: bytes | None, *, key: bytes = b"bad", at: int = NOON) -> None:
        """Write a value that does not match the schema."""
        self._write(Record(key, value, at))

    def flush(self) -> None:
        """Wait until Kafka has stored all records."""
        assert self._producer.flush(30) == 0

    def _write(self, record: Record) -> None:
        index = len(self.records)
        self.records.append(record)

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            at = self.records[index]
            self.records[index] = Record(
                at.key, at.value, at.at, at.word, at.count, at.id, at.headers, partition, offset
            )

        self._producer.produce(
            self.topic,
            value=record.value,
            key=record.key,
            partition=zlib.crc32(record.key or b"") % self.partitions,
            timestamp=record.at,
            headers=dict(record.headers),
            on_delivery=delivered,
        )
        self._producer.poll(0)

    @property
    def good(self) -> list[Record]:
        """Return the valid records, in the order of each partition."""
        return sorted(
            (r for r in self.records if r.id is not None), key=lambda r: (r.partition, r.offset)
        )

    @property
    def first(self) -> dict[str, Record]:
        """Return the first record of every id: the expected silver."""
        first: dict[str, Record] = {}
        for record in self.good:
            assert record.id is not None
            first.setdefault(record.id, record)
        return first

    @property
    def word_counts(self) -> dict[str, tuple[int, int]]:
        """Return the latest count and the number of distinct ids of every word: the expected gold."""
        latest = {record.word: record.count for record in self.good}
        exact = Counter(record.word for record in self.first.values())
        return {
            word: (count, exact[word])
            for word, count in latest.items()
            if word is not None and count is not None
        }

    @property
    def counts_per_minute(self) -> dict[tuple[int, str], int]:
        """Return the number of distinct ids of every minute (its start in milliseconds) and word."""
        found: Counter[tuple[int, str]] = Counter()
        for record in self.first.values():
            assert record.word is not None
            found[record.at - record.at % MINUTE, record.word] += 1
        return dict(found)
