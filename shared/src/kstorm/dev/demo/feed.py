"""Produce the demo's messages while the topology runs, never far ahead of it.

At any time, at most `allowed()` messages have been produced. This keeps the producer close to the
completed trees, so that latency measures the processing of a sentence and not its time in a queue.
"""

import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kstorm.dev.demo.audit import Produced
from kstorm.errors import BrokerError

_LOOK_SECS: Final = 0.05
_FLUSH_SECS: Final = 60.0


class Feed(threading.Thread):
    """A thread that writes `texts[i]` to partition `i mod partitions`. It gets the offsets from the
    broker's delivery reports."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topic: str,
        partitions: int,
        texts: Sequence[str],
        allowed: Callable[[], int],
    ) -> None:
        super().__init__(name="feed", daemon=True)
        self.handed_over = 0
        """The number of messages that were passed to the producer so far."""
        self.error: BrokerError | None = None
        """The reason why the thread stopped early; None if it did not."""
        self._topic, self._partitions, self._texts, self._allowed = (
            topic,
            partitions,
            texts,
            allowed,
        )
        self._offsets = array("q", [-1]) * len(texts)  # -1 until the broker has the message
        self._timestamps = array("q", [0]) * len(texts)
        self._stopping = threading.Event()
        self._producer = Producer({**client_config, "enable.idempotence": True, "linger.ms": 5})

    def produced(self) -> list[Produced]:
        """Every message with its partition and offset."""
        return [
            Produced(
                text, number % self._partitions, self._offsets[number], self._timestamps[number]
            )
            for number, text in enumerate(self._texts)
        ]

    def ends(self) -> dict[int, int]:
        """For each partition, the offset after its last message."""
        return {
            partition: 1 + max(self._offsets[partition :: self._partitions], default=-1)
            for partition in range(self._partitions)
        }

    def run(self) -> None:
        """Produce until the broker has every message, or until `stop`."""
        while (
            self.handed_over < len(self._texts)
            and not self._stopping.is_set()
            and self.error is None
        ):
            self._produce(min(self._allowed(), len(self._texts)))
            self._producer.poll(0)
            self._stopping.wait(_LOOK_SECS)
        left = self._producer.flush(0 if self._stopping.is_set() else _FLUSH_SECS)
        if left and not self._stopping.is_set():
            self._fail(f"{left} messages did not arrive within {_FLUSH_SECS:g} s")

    def stop(self) -> None:
        """Stop producing, and wait until the thread has ended."""
        self._stopping.set()
        if self.is_alive():
            self.join()

    def check(self) -> None:
        """Raise `BrokerError` if the thread stopped early."""
        if self.error is not None:
            raise self.error

    def _produce(self, until: int) -> None:
        for number in range(self.handed_over, until):
            report = partial(self._delivered, number)
            try:
                self._producer.produce(
                    self._topic,
                    self._texts[number].encode(),
                    partition=number % self._partitions,
                    on_delivery=report,
                )
            except BufferError:  # librdkafka's queue is full; the next turn continues here
                return
            except KafkaException as error:
                self._fail(error.args[0].str())
                return
            self.handed_over = number + 1

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fail(error.str())
            return
        self._timestamps[number] = message.timestamp()[1]
        self._offsets[number] = message.offset() or 0

    def _fail(self, reason: str) -> None:
        self.error = BrokerError(
            f"Kafka did not take the messages for topic {self._topic!r}: {reason}"
        )
