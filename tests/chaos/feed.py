"""Produces messages at a steady rate, so that something is always in flight."""

import random
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from kstorm.errors import BrokerError
from tests.chaos.topology import PARTITIONS, SOURCE

VOCABULARY: Final = [f"w{number}" for number in range(499)]
_WORDS: Final = 5
_TICK_SECS: Final = 0.02
_FLUSH_SECS: Final = 120.0


class PostedMessage(NamedTuple):
    """A message and its target partition."""

    id: str
    text: str
    partition: int


def message(number: int, rate: float = 0.0) -> str:
    """Return the message with this number: its id and some words, always the same at any rate."""
    return f"m{number} {' '.join(random.Random(number).choices(VOCABULARY, k=_WORDS))}"


def last_messages(number: int = 0, rate: float = 0.0) -> list[PostedMessage]:
    """Return messages with each word once, to be produced when all others are finished.

    They produce the last counts.
    """
    groups = [VOCABULARY[first : first + 10] for first in range(0, len(VOCABULARY), 10)]
    return [
        PostedMessage(f"last{place}", f"last{place} {' '.join(words)}", place % PARTITIONS)
        for place, words in enumerate(groups)
    ]


class Feed(threading.Thread):
    """A thread that writes message i to partition `i mod partitions`.

    `rate` is messages per second. `message` returns the message with a number, at a rate.
    """

    def __init__(self, bootstrap: str, rate: float, message: Callable[[int, float], str]) -> None:
        super().__init__(name="feed", daemon=True)
        self.produced = 0
        """Number of messages queued so far."""
        self.arrived = 0
        """Number of these that Kafka has."""
        self._rate, self._message = rate, message
        self._problem = ""
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 0,  # an outage may be long
                "reconnect.backoff.max.ms": 1000,
                "metadata.recovery.strategy": "none",  # like the services' producers
                # A stopping broker may report that there are no brokers. The client then forgets
                # the only one, and the run would end by its time limit.
                "topic.metadata.refresh.interval.ms": 5000,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        began = time.monotonic()
        while not self._stopping.wait(_TICK_SECS):
            due = int((time.monotonic() - began) * self._rate)
            while self.produced < due and not self._problem:
                try:
                    self._producer.produce(
                        SOURCE,
                        self._message(self.produced, self._rate).encode(),
                        partition=self.produced % PARTITIONS,
                        on_delivery=self._delivered,
                    )
                except BufferError:  # continue when Kafka has taken some
                    break
                self.produced += 1
            self._producer.poll(0)

    def stop(self) -> None:
        """Stop producing, and wait until Kafka has all messages. Raises `BrokerError` if not."""
        self._stopping.set()
        self.join()
        if left := self._producer.flush(_FLUSH_SECS):
            self._problem = f"{left} did not arrive within {_FLUSH_SECS:.0f} s"
        self.check()

    def give_up(self) -> None:
        """Stop producing, and wait for nothing."""
        self._stopping.set()

    def check(self) -> None:
        """Raise `BrokerError` if Kafka refused a message."""
        if self._problem:
            raise BrokerError(
                f"Kafka did not take the messages for topic {SOURCE!r}: {self._problem}"
            )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.arrived += 1
        else:
            self._problem = error.str()
