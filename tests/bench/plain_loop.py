"""`python -m tests.bench.plain_loop`: the base of all comparisons. It does as little as a program can.

One process consumes, splits, counts in a dict and produces. Once per second it waits for its
deliveries and commits. It has no guarantees: a failed delivery is lost, and its counts start again
with the process.
"""

import sys
import time
from typing import Final

from confluent_kafka import Consumer, Message, Producer

from kstorm.dev.command_exit import run_command
from kstorm.errors import BrokerError
from tests.bench.run_parameters import PRODUCER, RunParameters, from_environment

_COMMIT_SECS: Final = 1.0
_BATCH: Final = 1000
_IDLE_SECS: Final = 0.1
_FULL_SECS: Final = 0.05
_FLUSH_SECS: Final = 30.0


def run_loop(terms: RunParameters) -> int:
    """Run until `KeyboardInterrupt`, which SIGTERM is turned into.

    Raises `BrokerError` if Kafka refuses a record.
    """
    counter = _Counter(terms)
    consumer = Consumer(
        {
            "bootstrap.servers": terms.bootstrap,
            "group.id": terms.run,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([terms.source])
    try:
        commit_at = time.monotonic() + _COMMIT_SECS
        consumed = False
        while True:
            for message in _whatever_is_there(consumer):
                if (error := message.error()) is not None:
                    raise BrokerError(f"topic {terms.source!r} cannot be read: {error.str()}")
                counter.count(message.value() or b"")
                consumed = True
            if consumed and time.monotonic() >= commit_at:
                counter.flush()
                consumer.commit(asynchronous=False)
                commit_at, consumed = time.monotonic() + _COMMIT_SECS, False
    finally:
        consumer.close()


def _whatever_is_there(consumer: Consumer) -> list[Message]:
    """Return the first available message and those queued behind it, or none after a while.

    `consume` alone would wait for a full batch.
    """
    first = consumer.poll(_IDLE_SECS)
    return [] if first is None else [first, *consumer.consume(_BATCH, 0)]


class _Counter:
    """Counts the words of sentences, and produces each count."""

    def __init__(self, terms: RunParameters) -> None:
        self._producer = Producer({"bootstrap.servers": terms.bootstrap, **PRODUCER})
        self._topic = terms.sink
        self._counts: dict[bytes, int] = {}

    def count(self, sentence: bytes) -> None:
        """Split one sentence, and count its words."""
        produce, counts, topic = self._producer.produce, self._counts, self._topic
        ident, *words = sentence.split()
        for word in words:
            count = counts[word] = counts.get(word, 0) + 1
            value = b"%d %s" % (count, ident)
            while True:
                try:
                    produce(topic, value, word)
                    break
                except BufferError:  # the producer's queue is full
                    self._producer.poll(_FULL_SECS)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until Kafka has all records. Raises `BrokerError` if that takes too long."""
        if left := self._producer.flush(_FLUSH_SECS):
            raise BrokerError(f"Kafka did not take {left} counts within {_FLUSH_SECS:g} s")


if __name__ == "__main__":
    sys.exit(run_command("kstorm bench loop", lambda: run_loop(from_environment())))
