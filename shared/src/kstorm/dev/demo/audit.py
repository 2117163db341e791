"""Compare the sink topic with the input, without relying on the topology's code.

This module counts the input itself, word by word. Every word of every message must be in the sink
topic with its own ID, `<partition>-<offset>-<position>`. The partition and offset of a message are
known from the broker's delivery reports. The highest count of a word in the sink topic must not be
lower than the correct count. With at-least-once processing it may be higher, because a replayed
sentence is counted again. With exactly-once processing it must be equal.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kstorm.dev.topic_reader import consume_to
from kstorm.errors import BrokerError

_ANSWER_SECS: Final = 30.0


class Produced(NamedTuple):
    """A message that was written to the source topic."""

    text: str
    partition: int
    offset: int
    timestamp: int
    """Time at which the producer got the message, in ms since 1970."""


class SinkRecord(NamedTuple):
    """A record of the sink topic."""

    value: bytes
    timestamp: int
    """Time at which the broker got the record, in ms since 1970."""


@dataclass(frozen=True, slots=True)
class DemoFindings:
    """The result of the audit."""

    lost: Sequence[Produced]
    """Messages with at least one missing word."""
    truth: Mapping[str, int]
    """The number of times that each word is in the input."""
    short: Mapping[str, int]
    """Words whose highest count is too low, with that count."""
    over: Mapping[str, int]
    """Words whose highest count is too high, with the excess."""
    foreign: Sequence[bytes]
    """Invalid records: unreadable ones, and those whose word is not at the position in the ID."""
    records: int
    """The number of records."""
    repeated: int
    """The number of records that replays caused: those with the ID of an earlier record."""
    latencies_ms: Sequence[int]
    """For each complete message, the time from the producer to the last of its words in the sink topic; sorted."""

    def latency_ms(self, share: float) -> float | None:
        """A quantile of the latencies: `share` of them are lower. None if there are no latencies."""
        if not self.latencies_ms:
            return None
        return float(
            self.latencies_ms[min(len(self.latencies_ms) - 1, int(share * len(self.latencies_ms)))]
        )


class _Counted(msgspec.Struct):
    """The fields of the sink's JSON that the audit needs."""

    word: str
    count: int
    id: str
    """`<topic>-<partition>-<offset>-<position of the word>`."""


def audit(produced: Sequence[Produced], records: Iterable[SinkRecord]) -> DemoFindings:
    """Compare the input with the records of the sink topic."""
    words = [message.text.split() for message in produced]
    truth = Counter(word for each in words for word in each)
    number_at = {
        (message.partition, message.offset): number for number, message in enumerate(produced)
    }
    seen = [0] * len(produced)  # for each message, the positions found, as bits
    completed_at = array("q", [0]) * len(produced)
    highest: dict[str, int] = {}
    foreign: list[bytes] = []
    total = repeated = 0
    decode = msgspec.json.Decoder(_Counted).decode
    for value, timestamp in records:
        total += 1
        try:
            found = decode(value)
            partition, offset, position = map(int, found.id.rsplit("-", 3)[1:])
            number = number_at[partition, offset]
            fits = position >= 0 and words[number][position] == found.word
        except (msgspec.MsgspecError, ValueError, LookupError):
            fits = False
        if not fits:
            foreign.append(value)
            continue
        highest[found.word] = max(found.count, highest.get(found.word, 0))
        bit = 1 << position
        if seen[number] & bit:
            repeated += 1
        else:
            seen[number] |= bit
            completed_at[number] = max(completed_at[number], timestamp)
    whole = [mask == (1 << len(each)) - 1 for mask, each in zip(seen, words, strict=True)]
    return DemoFindings(
        lost=[message for message, ok in zip(produced, whole, strict=True) if not ok],
        truth=truth,
        short={
            word: highest.get(word, 0)
            for word, count in truth.items()
            if highest.get(word, 0) < count
        },
        over={
            word: highest[word] - count
            for word, count in truth.items()
            if highest.get(word, 0) > count
        },
        foreign=foreign,
        records=total,
        repeated=repeated,
        latencies_ms=sorted(
            at - message.timestamp
            for at, message, ok in zip(completed_at, produced, whole, strict=True)
            if ok
        ),
    )


def read_topic(client_config: Mapping[str, Any], topic: str) -> Iterator[SinkRecord]:
    """Read all current records of the topic with a plain consumer. Raises `BrokerError` if they do
    not arrive."""
    own = {
        "group.id": f"{topic}-audit",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        # With librdkafka's default of 1000 the consumer would mostly wait, because it empties its
        # queue faster than librdkafka fills it.
        "fetch.queue.backoff.ms": 20,
    }
    consumer = Consumer({**client_config, **own})
    try:
        for messages in consume_to(consumer, topic, _ends(consumer, topic), {}):
            for message in messages:
                yield SinkRecord(message.value() or b"", message.timestamp()[1])
    except KafkaException as error:
        raise BrokerError(f"topic {topic!r} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    partitions = consumer.list_topics(topic, timeout=_ANSWER_SECS).topics[topic].partitions
    return {
        partition: consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=_ANSWER_SECS
        )[1]
        for partition in partitions
    }
