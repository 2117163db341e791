"""Reads source, sink and dead letters in a pod, and prints the result of a tally.

    python -m tests.e2e.inside.words SERVERS SOURCE SINK LETTERS PATIENCE

(Or another module with a truth.) Reads until everything is there, or nothing has arrived for
PATIENCE seconds. Prints one line of JSON: `Findings`.
"""

import sys
import time
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from tests.e2e.inside.tally import ExpectedOutput, MessagePlace, SinkRecord, Tally


def audit(truth: ExpectedOutput) -> None:
    """The main function of a module with a truth."""
    servers, source, sink, letters, patience = sys.argv[1:]
    tally = Tally(truth)
    _read_source(servers, source, tally)
    reader = _reader(servers, sink, letters)
    last_news = time.monotonic()
    while True:
        polled = [message for message in reader.consume(5000, 2.0) if not message.error()]
        for message in polled:
            last_news = time.monotonic()
            if message.topic() == letters:
                if message.value() is not None:  # otherwise a discarded letter
                    tally.take_letter(message.value() or b"")
            else:
                tally.take_output(_output(message))
        if not polled and (tally.complete or time.monotonic() - last_news > float(patience)):
            break
    print(tally.findings().to_json(), flush=True)


def _output(message: Message) -> SinkRecord:
    headers = dict(cast("list[tuple[str, bytes]]", message.headers() or []))
    return SinkRecord(message.value() or b"", headers, message.timestamp()[1])


def _read_source(servers: str, topic: str, tally: Tally) -> None:
    reader = _reader(servers, topic)
    ends = [reader.get_watermark_offsets(place, timeout=30) for place in reader.assignment()]
    left = sum(end - begin for begin, end in ends)
    while left:
        for message in reader.consume(5000, 1.0):
            if message.error():
                continue
            left -= 1
            place = MessagePlace(topic, message.partition() or 0, message.offset() or 0)
            tally.add_message(place, message.value() or b"", message.timestamp()[1])


def _reader(servers: str, *topics: str) -> Consumer:
    """Return a consumer that reads topics from the beginning, committed records only."""
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "e2e-audit",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    known = reader.list_topics(timeout=30).topics
    places = [(topic, partition) for topic in topics for partition in known[topic].partitions]
    reader.assign(
        [TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in places]
    )
    return reader
