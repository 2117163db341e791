"""Batches that are damaged in every way but have a valid checksum.

A client that speaks Kafka's protocol can write them.
"""

import random
import time

from confluent_kafka import Producer

from kstorm.kafka import KafkaHosts, SpoutConfig
from kstorm.kafka.ports import Partition
from kstorm.runtime.kafka.source import KafkaSource
from tests.kafka_wire import batch, fetch, parts

_LAST = b"behind all"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def good_batch(bootstrap: str, topic: str, codec: str) -> bytes:
    """Return a batch of one record, as a client writes it into an empty topic.

    With several records a client may write several batches.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
    producer.produce(topic, b"a value that is easily compressed " * 60, partition=0)
    assert producer.flush(30) == 0
    found = fetch(bootstrap, topic, 0, 0)
    assert parts(found)[:2] == (CODECS.index(codec), 1)
    return found


def broken(whole: bytes, chance: random.Random) -> bytes:
    """Return a damaged copy of a batch.

    It has a flipped byte, lost or added bytes, another codec or record count, or other content.
    """
    codec, records, payload = parts(whole)
    at = chance.randrange(len(payload))
    match chance.randrange(6):
        case 0:
            payload = (
                payload[:at] + bytes([payload[at] ^ 1 << chance.randrange(8)]) + payload[at + 1 :]
            )
        case 1:
            payload = payload[:at]
        case 2:
            payload += chance.randbytes(chance.choice([1, 100]))
        case 3:
            codec = chance.choice([other for other in range(8) if other != codec])
        case 4:
            records = chance.choice([2, 4, 1000])
        case _:
            payload = chance.randbytes(chance.choice([1, len(payload)]))
    return batch(codec, records, payload)


def read_past_all(bootstrap: str, topic: str) -> tuple[set[int], list[tuple[int, int]]]:
    """Append one more record and read up to it, as a spout does.

    Returns the offsets that arrived, and the ranges that were skipped.
    """
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, _LAST, partition=0)
    assert producer.flush(30) == 0
    source, place = (
        KafkaSource(SpoutConfig(KafkaHosts(bootstrap), topic, "/r", "broken"), {}),
        Partition(topic, 0),
    )
    came: set[int] = set()
    passed: list[tuple[int, int]] = []
    try:
        source.assign(place, 0)
        deadline = time.monotonic() + 180
        while True:
            assert time.monotonic() < deadline, (
                f"it stands behind offset {max(came, default=-1)}, passed {passed}"
            )
            messages = source.read(1000)
            for message in messages:
                came.add(message.offset())
                if message.value() == _LAST:
                    return came, passed
            for fault in source.faults():
                if fault.undecodable is not None:
                    passed.append(fault.undecodable)
                    source.assign(place, fault.undecodable[1])
            if not messages:
                time.sleep(0.01)
    finally:
        source.close()
