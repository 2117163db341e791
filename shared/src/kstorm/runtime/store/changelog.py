"""Reads a partition of a changelog from some offset to its end, in pieces that are small enough to hold."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstorm.core.recovery import Log
from kstorm.errors import BrokerError, FrameError
from kstorm.runtime.kafka.checkpoints import Pair
from kstorm.runtime.kafka.fetching import OWN_TOPICS
from kstorm.runtime.kafka.topics import changelog_facts
from kstorm.runtime.kafka.watermarks import watermarks
from kstorm.runtime.service.settings import Settings

_CLIENT_TIMEOUT: Final = 20.0
_POLL_SECS: Final = 0.5
_PIECE_KEYS, _PIECE_BYTES = 2_000, 1 << 20
_REFUSED_RECORDS, _REFUSED_BYTES = 1000, 16 << 20  # of those kept for the dead letters

Check = Callable[[bytes, bytes | None], None]
"""Raises `FrameError` for a key and value that no table of this kind can have written."""

Keep = Callable[[list[Pair], int], None]
"""Takes over the last value of each key in a piece of the log, and the offset up to which it goes."""


@dataclass
class ChangelogFindings:
    """What reading a changelog came to."""

    records: int = 0
    """Records kept; a key may have had several."""
    refused: list[tuple[Message, str]] = field(default_factory=list)
    """Records that no table can have written, with why; of very many the first."""
    left_out: int = 0
    """How many more there were."""
    _refused_bytes: int = 0

    def refuse(self, message: Message, reason: str) -> None:
        """Leaves a record out."""
        self._refused_bytes += len(message)
        if len(self.refused) < _REFUSED_RECORDS and self._refused_bytes <= _REFUSED_BYTES:
            self.refused.append((message, reason))
        else:
            self.left_out += 1


class Changelog:
    """One partition of a changelog. All of it blocks, and raises `BrokerError` if Kafka is the problem."""

    def __init__(self, topic: str, partition: int, settings: Settings) -> None:
        self._topic, self._partition, self._settings = topic, partition, settings

    def look(self) -> Log:
        """What it is like now. Its end is that with transactions which are still open."""
        facts = changelog_facts(self._topic, self._settings)
        asking = self._consumer({"isolation.level": "read_uncommitted"})
        try:
            place = TopicPartition(self._topic, self._partition)
            low, high = watermarks(asking, place, _CLIENT_TIMEOUT)
        except KafkaException as error:
            raise self._failed(error.args[0]) from None
        finally:
            asking.close()
        return Log(facts.topic_id, low, high, facts.tombstone_secs)

    def read(
        self, start: int, high: int, check: Check, keep: Keep, stopped: Callable[[], bool]
    ) -> ChangelogFindings:
        """Gives what is committed from `start` to before `high` to `keep`, in pieces; ends early if `stopped` says so.

        A transaction that is open there is waited for: its process may be dead, or about to commit.
        """
        consumer = self._consumer(
            {
                "isolation.level": "read_committed",  # whatever the spouts read: a checkpoint that was aborted never was
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                # The end is mostly the mark of a transaction, which is no record: that it is the end is heard only with an
                # answer that has nothing in it, and the broker holds that back so long, by default for 500 ms.
                "fetch.wait.max.ms": 20,
                # What waits in the client counts ten times its size when records are small.
                "fetch.message.max.bytes": 1 << 20,
                "queued.min.messages": 20_000,
                "queued.max.messages.kbytes": 8 << 10,
                "fetch.queue.backoff.ms": 5,
                **OWN_TOPICS,
            }
        )
        try:
            consumer.assign([TopicPartition(self._topic, self._partition, start)])
            return drain(consumer, start, high, check, keep, stopped)
        except KafkaException as error:
            raise self._failed(error.args[0]) from None
        finally:
            consumer.close()

    def _consumer(self, config: dict[str, str | int | bool]) -> Consumer:
        own = {"group.id": f"{self._topic}.recovery", "enable.auto.commit": False}
        return Consumer({**self._settings.client_config, **own, **config})

    def _failed(self, error: KafkaError) -> BrokerError:
        return BrokerError(
            f"the changelog {self._topic!r}, partition {self._partition}, cannot be read from Kafka at "
            f"{self._settings.bootstrap_servers}: {error.str()}"
        )


def drain(
    consumer: Consumer, start: int, high: int, check: Check, keep: Keep, stopped: Callable[[], bool]
) -> ChangelogFindings:
    """Reads an assigned partition as `Changelog.read` does."""
    found = ChangelogFindings()
    piece: dict[bytes, bytes | None] = {}
    size, reached = 0, start
    while reached < high and not stopped():
        first = consumer.poll(
            _POLL_SECS
        )  # which `consume` would wait out, did it not find a thousand
        for message in [] if first is None else [first, *consumer.consume(1000, 0)]:
            error = message.error()
            if error is None:
                reached = (message.offset() or 0) + 1
                try:
                    key, value = _pair(message)
                    check(key, value)
                except FrameError as mistake:
                    found.refuse(message, str(mistake))
                else:
                    piece[key] = value
                    found.records += 1
                    size += len(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = max(
                    reached, message.offset() or 0
                )  # below are commit marks, and what was compacted away
            else:
                raise KafkaException(error)
        if len(piece) >= _PIECE_KEYS or size >= _PIECE_BYTES:
            keep(list(piece.items()), reached - 1)
            piece, size = {}, 0
    if piece:
        keep(list(piece.items()), min(reached, high) - 1)
    return found


def _pair(message: Message) -> Pair:
    key, value = message.key(), message.value()
    if not isinstance(key, bytes) or isinstance(value, str):
        raise FrameError("a record without a key: a table writes none")
    return key, value
