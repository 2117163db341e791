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
    came, expected, counts = _read_source(servers, source)
    missing, strange, copies = set(expected), 0, Counter[int]()
    finished: dict[str, int] = {}
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
                sentence = place.rpartition("-")[0]
                finished[sentence] = max(message.timestamp()[1], finished.get(sentence, 0))
                last_news = time.monotonic()
            elif place in expected:
                copies[message.timestamp()[1] // 1000] += 1
            else:
                strange += 1
        if not polled and (not missing or time.monotonic() - last_news > float(patience)):
            break
    outcome = {
        "sentences": len(came),
        "slowest": _slowest(came, finished),
        "words": len(expected),
        "counts": counts,
        "lost": len(missing),
        "some_lost": sorted(missing)[:10],
        "strange": strange,
        "miscounted": sorted(word for word, count in counts.items() if highest.get(word) != count)[:10],
        "copies": {str(second): count for second, count in sorted(copies.items())},
    }
    print(json.dumps(outcome), flush=True)


def _slowest(came: dict[str, int], finished: dict[str, int]) -> list[tuple[float, float]]:
    """Of the messages that came within a second the one that took longest: when it came, and when its last word was there."""
    found: dict[int, tuple[float, float]] = {}
    for sentence, end in finished.items():
        begin = came[sentence]
        second, slowest = begin // 1000, found.get(begin // 1000, (0.0, 0.0))
        if (end - begin) / 1000 > slowest[1] - slowest[0]:
            found[second] = begin / 1000, end / 1000
    return sorted(found.values())


def _read_source(servers: str, topic: str) -> tuple[dict[str, int], set[str], Counter[str]]:
    """When each message came, in ms; the ids of all words, and how often each word occurs."""
    reader = _reader(servers, topic)
    places = reader.assignment()
    ends = {place.partition: reader.get_watermark_offsets(place, timeout=10)[1] for place in places}
    came: dict[str, int] = {}
    words, counts = set[str](), Counter[str]()
    while len(came) < sum(ends.values()):
        for message in reader.consume(5000, 1.0):
            if message.error():
                continue
            where = f"{topic}-{message.partition()}-{message.offset()}"
            came[where] = message.timestamp()[1]
            text = (message.value() or b"").decode().split()
            words.update(f"{where}-{position}" for position in range(len(text)))
            counts.update(text)
    return came, words, counts


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
