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


class Posted(NamedTuple):
    """A message, and where it is to be written."""

    id: str
    text: str
    partition: int


def message(number: int, rate: float = 0.0) -> str:
    """The message of that number: its id and some words, the same ones always, at any rate."""
    return f"m{number} {' '.join(random.Random(number).choices(VOCABULARY, k=_WORDS))}"


def last_messages(number: int = 0, rate: float = 0.0) -> list[Posted]:
    """Messages with each word once, to be produced when all others are finished: with them come the last counts."""
    groups = [VOCABULARY[first : first + 10] for first in range(0, len(VOCABULARY), 10)]
    return [
        Posted(f"last{place}", f"last{place} {' '.join(words)}", place % PARTITIONS)
        for place, words in enumerate(groups)
    ]


class Feed(threading.Thread):
    """A thread; message i is written to partition `i mod partitions`. `rate` is messages a second; `message` gives the one of a
    number, at a rate."""

    def __init__(self, bootstrap: str, rate: float, message: Callable[[int, float], str]) -> None:
        super().__init__(name="feed", daemon=True)
        self.produced = 0
        """How many messages have been handed over so far."""
        self.arrived = 0
        """How many of them Kafka has."""
        self._rate, self._message = rate, message
        self._problem = ""
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 0,  # an outage may last
                "reconnect.backoff.max.ms": 1000,
                "metadata.recovery.strategy": "none",  # as the services' producers have it
                # It may forget the only broker, when that says as it ends that there is none; then the run ends by its time.
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
                except BufferError:  # it goes on when Kafka has taken some
                    break
                self.produced += 1
            self._producer.poll(0)

    def stop(self) -> None:
        """Produce no more, and wait until Kafka has all; `BrokerError` if it has not."""
        self._stopping.set()
        self.join()
        if left := self._producer.flush(_FLUSH_SECS):
            self._problem = f"{left} did not arrive within {_FLUSH_SECS:.0f} s"
        self.check()

    def give_up(self) -> None:
        """Produce no more, and wait for nothing."""
        self._stopping.set()

    def check(self) -> None:
        """Raise `BrokerError` if Kafka refused one."""
        if self._problem:
            raise BrokerError(
                f"Kafka did not take the messages for topic {SOURCE!r}: {self._problem}"
            )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.arrived += 1
        else:
            self._problem = error.str()
