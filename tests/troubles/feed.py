"""Messages for the topology, at a steady rate that a trouble may change."""

import itertools
import json
import threading
import time
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Producer

from kstorm.errors import BrokerError
from tests.troubles.topology import PARTITIONS, SOURCE

_PAUSE_SECS: Final = 0.1
_KEYS: Final = 500
_SEND_SECS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Mix:
    """The kind and the rate of the messages."""

    rate: float = 60.0
    """Messages per second."""
    key: str = ""
    """The only key, or empty for many keys."""
    cost: float = 0.0
    """Seconds that the sink needs for a message."""
    late_share: float = 0.0
    """Share of messages that are one hour late."""


class Feed:
    """Sends messages in a thread for the duration of the context. `mix` may be replaced."""

    def __init__(self, bootstrap: str) -> None:
        self.mix = Mix()
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 5})
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def __enter__(self) -> "Feed":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def send_poison(self) -> None:
        """Send one message on which a bolt always raises, and wait until Kafka has it."""
        self._producer.produce(SOURCE, message("poison-1", poison=True), partition=0)
        if self._producer.flush(_SEND_SECS):
            raise BrokerError(f"Kafka did not take the poison message of topic {SOURCE!r}")

    def _run(self) -> None:
        owed = 0.0
        while not self._ended.wait(_PAUSE_SECS):
            mix = self.mix
            owed += mix.rate * _PAUSE_SECS
            while owed >= 1:
                owed -= 1
                self._send(mix, next(self._numbers))
            self._producer.poll(0)

    def _send(self, mix: Mix, number: int) -> None:
        is_late = (number % 100) < mix.late_share * 100
        value = message(mix.key or f"key-{number % _KEYS}", cost=mix.cost, is_late=is_late)
        try:
            self._producer.produce(SOURCE, value, partition=number % PARTITIONS)
        except BufferError:
            return  # Kafka is away


def message(key: str, *, cost: float = 0.0, poison: bool = False, is_late: bool = False) -> bytes:
    at = int(time.time() * 1000) - (3_600_000 if is_late else 0)
    return json.dumps({"key": key, "at": at, "cost": cost, "poison": poison}).encode()
