"""Runs in a pod: posts lines of text at a steady rate, and prints the progress of the sink.

    python -m tests.e2e.inside.feed SERVERS SOURCE SINK RATE LINES STOP

Posts the lines of the file LINES in a loop, until the file STOP exists. `{message-number}` in a
line is replaced by the number of previous messages. Prints a line of JSON every quarter of a
second: `at` (seconds since 1970), `sent`, `taken` (by Kafka), `sink` (records there). Independent
of kstorm.
"""

import itertools
import json
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

_EVERY_SECS = 0.25
_NUMBER = "{message-number}"


class Feed:
    """Posts text, and counts the messages that Kafka has taken."""

    def __init__(self, servers: str, source: str, sink: str) -> None:
        self._source, self._sink = source, sink
        patient = {
            "bootstrap.servers": servers,
            "reconnect.backoff.max.ms": 1000,
            "metadata.recovery.strategy": "none",
        }
        # Kafka is restarted meanwhile. No message may be dropped or sent twice.
        self._producer = Producer({**patient, "enable.idempotence": True, "message.timeout.ms": 0})
        self._consumer = Consumer({**patient, "group.id": "e2e-feed", "socket.timeout.ms": 2000})
        self._taken = self._sent = self._end = 0

    def run(self, lines: list[str], rate: float, stop: Path) -> None:
        began, told = time.monotonic(), 0.0
        for line in itertools.cycle(lines):
            if stop.exists():
                break
            self._producer.produce(
                self._source,
                line.replace(_NUMBER, str(self._sent)).encode(),
                on_delivery=self._delivered,
            )
            self._sent += 1
            while (ahead := began + self._sent / rate - time.monotonic()) > 0:
                self._producer.poll(min(ahead, 0.05))
            if time.monotonic() - told > _EVERY_SECS:
                told = time.monotonic()
                self._tell()
        self._producer.flush()
        self._tell()

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            raise SystemExit(f"a message was not taken: {error}")
        self._taken += 1

    def _tell(self) -> None:
        self._end = self._sink_end()
        print(
            json.dumps(
                {"at": time.time(), "sent": self._sent, "taken": self._taken, "sink": self._end}
            ),
            flush=True,
        )

    def _sink_end(self) -> int:
        """Return the number of records in the sink, or the last number if Kafka does not answer."""
        try:
            partitions = (
                self._consumer.list_topics(self._sink, timeout=1).topics[self._sink].partitions
            )
            ends = (
                self._consumer.get_watermark_offsets(
                    TopicPartition(self._sink, partition), timeout=1
                )
                for partition in partitions
            )
            return sum(end[1] for end in ends if end is not None)
        except KafkaException:
            return self._end


def main() -> None:
    servers, source, sink, rate, lines, stop = sys.argv[1:]
    some = [line for line in Path(lines).read_text().splitlines() if line.split()]
    Feed(servers, source, sink).run(some, float(rate), Path(stop))


if __name__ == "__main__":
    main()
