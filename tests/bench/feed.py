"""Produces the sentences: all before a contestant starts, or at a fixed rate while it runs."""

import threading
import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Producer

from kstorm.errors import BrokerError
from tests.bench.run_parameters import PRODUCER

WARM_UP_SECS: Final = 10.0
"""A feed sends this long at its rate before its sentences are measured."""

_FLUSH_SECS: Final = 60.0
_FULL_SECS: Final = 0.05
_TICK_SECS: Final = 0.002
"""Interval of sends. Waking up for each sentence would cost the contestant much of a CPU."""


class BenchProducer:
    """Writes records to one topic, and detects if one is refused."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        refused: list[object] = []

        def delivered(error: object | None, _: object) -> None:
            if error is not None:
                refused.append(error)

        self._topic, self._refused = topic, refused
        # The callback has no reference to this object. So both are freed at once, not by the
        # garbage collector.
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, **PRODUCER, "on_delivery": delivered, "log_level": 0}
        )

    def send(self, ident: int, text: str) -> None:
        """Queue a sentence with its id."""
        self.put(f"{ident} {text}")

    def put(self, value: str, key: str | None = None) -> None:
        """Queue a record. Waits only if very many are not yet delivered."""
        while True:
            try:
                self._producer.produce(self._topic, value, key)
                break
            except BufferError:  # its queue is full
                self._producer.poll(_FULL_SECS)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all are delivered. Raises `BrokerError` if one failed, now or before."""
        left = self._producer.flush(_FLUSH_SECS)
        if left or self._refused:
            reason = self._refused[0] if self._refused else "no answer"
            raise BrokerError(f"Kafka did not take all records of {self._topic!r}: {reason}")


def fill(bootstrap: str, topic: str, texts: Sequence[str]) -> None:
    """Produce all sentences, with their numbers as ids. Raises `BrokerError` if Kafka fails."""
    producer = BenchProducer(bootstrap, topic)
    for number, text in enumerate(texts):
        producer.send(number, text)
    producer.flush()


class RateFeed(threading.Thread):
    """Sends sentences at a rate. The id is the time of sending in µs since 1970.

    `send_first` sends the first sentence, to find out when the contestant works. `start` sends the
    others.
    """

    def __init__(self, bootstrap: str, topic: str, texts: Sequence[str], rate: float) -> None:
        """`rate` is in sentences per second."""
        super().__init__(name="kstorm-bench-feed", daemon=True)
        self.measured_from: int | None = None
        """The id from which sentences are measured, or None during the warm-up."""
        self._producer = BenchProducer(bootstrap, topic)
        self._texts, self._rate = texts, rate
        self._last_ident = 0
        self._ended = threading.Event()
        self._error: BrokerError | None = None

    @property
    def seconds(self) -> float:
        """Duration from `start` on."""
        return (len(self._texts) - 1) / self._rate

    def send_first(self) -> None:
        """Send one sentence, and wait until it is delivered. Raises `BrokerError`."""
        self._send(self._texts[0])
        self._producer.flush()

    def run(self) -> None:
        began = time.monotonic()
        warm_up = int(WARM_UP_SECS * self._rate)
        for number, text in enumerate(self._texts[1:]):
            if self._late(began + number / self._rate):
                return
            ident = self._send(text)
            if number == warm_up:
                self.measured_from = ident
        try:
            self._producer.flush()
        except BrokerError as error:
            self._error = error

    def stop(self) -> None:
        """Stop sending, and wait for the thread. Does nothing if it was not started."""
        self._ended.set()
        if self.ident is not None:
            self.join()

    def check(self) -> None:
        """Raise `BrokerError` if a sentence was refused."""
        if self._error is not None:
            raise self._error

    def _late(self, due: float) -> bool:
        """Wait until a sentence is due. Return True if the feed was stopped meanwhile."""
        wait = due - time.monotonic()
        return wait > 0 and self._ended.wait(max(wait, _TICK_SECS))

    def _send(self, text: str) -> int:
        self._last_ident = max(time.time_ns() // 1000, self._last_ident + 1)
        self._producer.send(self._last_ident, text)
        return self._last_ident


def sentences_at(rate: float, measured: int) -> int:
    """Return how many sentences a feed needs to have `measured` of them after its warm-up."""
    return 1 + int(WARM_UP_SECS * rate) + measured
