"""Runs in a pod: compares each word of each source message with the records of the sink.

    python audit.py SERVERS SOURCE SINK PATIENCE

The sink's records are JSON with `id`, "partition-offset-position" of a word in the source. Reads until every word is there, or
until for PATIENCE seconds none came. Prints one line of JSON. Knows nothing of kstorm.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition


def main() -> None:
    """The entry point."""
    servers, source, sink, patience = sys.argv[1:]
    sentences, expected = 0, set()
    for message in _read_to_end(servers, source):
        sentences += 1
        words = (message.value() or b"").decode().split()
        expected.update(f"{message.partition()}-{message.offset()}-{position}" for position in range(len(words)))
    found: set[str] = set()
    copies: Counter[int] = Counter()
    reader = _reader(servers, sink)
    last_news = time.monotonic()
    while expected - found if time.monotonic() - last_news > 1 else True:
        if time.monotonic() - last_news > float(patience):
            break
        for message in reader.consume(5000, 0.5):
            if message.error():
                continue
            word = json.loads(message.value() or b"null")["id"]
            if word in found:
                copies[message.timestamp()[1] // 1000] += 1
            else:
                found.add(word)
                last_news = time.monotonic()
    lost = sorted(expected - found)
    outcome = {
        "sentences": sentences,
        "words": len(expected),
        "lost": len(lost),
        "some_lost": lost[:10],
        "strange": len(found - expected),
        "copies": {str(second): count for second, count in sorted(copies.items())},
    }
    print(json.dumps(outcome), flush=True)


def _read_to_end(servers: str, topic: str) -> Iterator[Message]:
    reader = _reader(servers, topic)
    ends = {place.partition: reader.get_watermark_offsets(place, timeout=10)[1] for place in reader.assignment()}
    while any(reader.position([TopicPartition(topic, partition)])[0].offset < end for partition, end in ends.items() if end):
        for message in reader.consume(5000, 1.0):
            if not message.error() and message.offset() < ends[message.partition()]:
                yield message


def _reader(servers: str, topic: str) -> Consumer:
    reader = Consumer({"bootstrap.servers": servers, "group.id": "e2e-audit", "enable.auto.commit": False})
    partitions = reader.list_topics(topic, timeout=30).topics[topic].partitions
    reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    return reader


if __name__ == "__main__":
    main()
