"""Runs in a pod: compares each word of each source message with the records of the sink.

    python audit.py SERVERS SOURCE SINK PATIENCE

The sink's records are JSON with `word`, its `count`, and `id`, "partition-offset-position" of a word in the source. Reads until
every word is there, or until for PATIENCE seconds none came. Prints one line of JSON. Knows nothing of kstorm.
"""

import json
import sys
import time
from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition


def main() -> None:
    servers, source, sink, patience = sys.argv[1:]
    sentences, expected, counts = _read_source(servers, source)
    missing, strange, copies = set(expected), 0, Counter[int]()
    highest: dict[str, int] = {}
    reader = _reader(servers, sink)
    last_news = time.monotonic()
    while True:
        polled = [message for message in reader.consume(5000, 2.0) if not message.error()]
        for message in polled:
            record = json.loads(message.value() or b"null")
            place, word = record["id"], record["word"]
            highest[word] = max(record["count"], highest.get(word, 0))
            if place in missing:
                missing.remove(place)
                last_news = time.monotonic()
            elif place in expected:
                copies[message.timestamp()[1] // 1000] += 1
            else:
                strange += 1
        if not polled and (not missing or time.monotonic() - last_news > float(patience)):
            break
    outcome = {
        "sentences": sentences,
        "words": len(expected),
        "counts": counts,
        "lost": len(missing),
        "some_lost": sorted(missing)[:10],
        "strange": strange,
        "miscounted": sorted(word for word, count in counts.items() if highest.get(word) != count)[:10],
        "copies": {str(second): count for second, count in sorted(copies.items())},
    }
    print(json.dumps(outcome), flush=True)


def _read_source(servers: str, topic: str) -> tuple[int, set[str], Counter[str]]:
    """How many messages there are, the ids of their words, and how often each word occurs."""
    reader = _reader(servers, topic)
    places = reader.assignment()
    ends = {place.partition: reader.get_watermark_offsets(place, timeout=10)[1] for place in places}
    sentences, words, counts = 0, set[str](), Counter[str]()
    while sentences < sum(ends.values()):
        for message in reader.consume(5000, 1.0):
            if message.error():
                continue
            sentences += 1
            where = f"{topic}-{message.partition()}-{message.offset()}"
            text = (message.value() or b"").decode().split()
            words.update(f"{where}-{position}" for position in range(len(text)))
            counts.update(text)
    return sentences, words, counts


def _reader(servers: str, topic: str) -> Consumer:
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "e2e-audit",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    partitions = reader.list_topics(topic, timeout=30).topics[topic].partitions
    reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    return reader


if __name__ == "__main__":
    main()
