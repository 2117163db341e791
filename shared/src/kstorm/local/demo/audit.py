"""Compares the sink topic with what was sent in. It knows nothing of how the topology works.

The input is counted here, word by word. Every word of every message must be in the sink topic under its own id,
`<partition>-<offset>-<position>`, where the broker's delivery reports say what partition and offset a message got. And
the highest count that the sink topic has of a word must not be below the truth. Above it may be at least once, where a
replayed sentence is counted again; exactly once it may not.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kstorm.errors import BrokerError
from kstorm.local.consume import consume_to

_ANSWER_SECS: Final = 30.0


class Produced(NamedTuple):
    """A message that was written to the source topic."""

    text: str
    partition: int
    offset: int
    timestamp: int
    """When it was handed over, in ms since 1970."""


class SinkRecord(NamedTuple):
    """A record of the sink topic."""

    value: bytes
    timestamp: int
    """When the broker got it, in ms since 1970."""


@dataclass(frozen=True, slots=True)
class DemoFindings:
    """What the audit found."""

    lost: Sequence[Produced]
    """Messages of which at least one word is missing."""
    truth: Mapping[str, int]
    """How often each word went in."""
    short: Mapping[str, int]
    """Words whose highest count is below the truth, with that count."""
    over: Mapping[str, int]
    """Words whose highest count is above the truth, with how much."""
    foreign: Sequence[bytes]
    """Records that cannot be: unreadable, or with a word that does not stand where the id says."""
    records: int
    """All records."""
    repeated: int
    """Records whose id an earlier one had: the traces of replays."""
    latencies_ms: Sequence[int]
    """For each message that is complete, from its handing over until the broker had the last of its words; sorted."""

    def latency_ms(self, share: float) -> float | None:
        """Milliseconds below which `share` of the latencies lie; None without any."""
        if not self.latencies_ms:
            return None
        return float(
            self.latencies_ms[min(len(self.latencies_ms) - 1, int(share * len(self.latencies_ms)))]
        )


class _Counted(msgspec.Struct):
    """What the sink's JSON says, as far as it matters here."""

    word: str
    count: int
    id: str
    """`<topic>-<partition>-<offset>-<position of the word>`."""


def audit(produced: Sequence[Produced], records: Iterable[SinkRecord]) -> DemoFindings:
    """Compare both sides."""
    words = [message.text.split() for message in produced]
    truth = Counter(word for each in words for word in each)
    number_at = {
        (message.partition, message.offset): number for number, message in enumerate(produced)
    }
    seen = [0] * len(produced)  # of each message, the positions found, as bits
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
    """All records that the topic has now, by a plain consumer; `BrokerError` if they do not come."""
    own = {
        "group.id": f"{topic}-audit",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.queue.backoff.ms": 20,  # at librdkafka's 1000 it waits most of the time: it reads faster than the queue is filled
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
