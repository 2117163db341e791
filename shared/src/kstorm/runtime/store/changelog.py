"""Read a partition of a changelog from an offset to its end, in pieces of limited size."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstorm.core.recovery import ChangelogState
from kstorm.errors import BrokerError, FrameError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.checkpoint_writer import Pair
from kstorm.runtime.kafka.fetch_limits import OWN_TOPICS
from kstorm.runtime.kafka.partition_bounds import partition_bounds
from kstorm.runtime.kafka.topics import changelog_facts

_CLIENT_TIMEOUT: Final = 20.0
_POLL_SECS: Final = 0.5
_PIECE_KEYS, _PIECE_BYTES = 2_000, 1 << 20
# limits for records kept for the dead letters
_REFUSED_RECORDS, _REFUSED_BYTES = 1000, 16 << 20

Check = Callable[[bytes, bytes | None], None]
"""Raises `FrameError` for a key and value that no table of this kind can have written."""

Keep = Callable[[list[Pair], int], None]
"""Store the last value of each key in a piece of the log, and the offset that the piece reaches."""


@dataclass
class ChangelogFindings:
    """The result of reading a changelog."""

    records: int = 0
    """Records read and accepted. Several may have the same key."""
    refused: list[tuple[Message, str]] = field(default_factory=list)
    """Rejected records with the reason. Limited to the first ones."""
    left_out: int = 0
    """Number of further rejected records."""
    _refused_bytes: int = 0

    def refuse(self, message: Message, reason: str) -> None:
        self._refused_bytes += len(message)
        if len(self.refused) < _REFUSED_RECORDS and self._refused_bytes <= _REFUSED_BYTES:
            self.refused.append((message, reason))
        else:
            self.left_out += 1


class Changelog:
    """One partition of a changelog. All methods block, and raise `BrokerError` for problems with
    Kafka."""

    def __init__(self, topic: str, partition: int, settings: Settings) -> None:
        self._topic, self._partition, self._settings = topic, partition, settings

    def look(self) -> ChangelogState:
        """Return the current state of the log. Its end includes open transactions."""
        facts = changelog_facts(self._topic, self._settings)
        asking = self._consumer({"isolation.level": "read_uncommitted"})
        try:
            place = TopicPartition(self._topic, self._partition)
            low, high = partition_bounds(asking, place, _CLIENT_TIMEOUT)
        except KafkaException as error:
            raise self._failed(error.args[0]) from None
        finally:
            asking.close()
        return ChangelogState(facts.topic_id, low, high, facts.tombstone_secs)

    def read(
        self, start: int, high: int, check: Check, keep: Keep, stopped: Callable[[], bool]
    ) -> ChangelogFindings:
        """Pass the committed records from `start` to before `high` to `keep`, in pieces.

        Ends early if `stopped` returns True. Waits for open transactions in this range, whose
        process may be dead or about to commit.
        """
        consumer = self._consumer(
            {
                # This is regardless of the spouts' setting, because an aborted checkpoint must not
                # be read.
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                # The log usually ends with a transaction marker, which is not a record, so the
                # client only notices the end by an empty response. The broker delays empty
                # responses by this time, whose default is 500 ms.
                "fetch.wait.max.ms": 20,
                # Small records take ten times their size in the client's queue.
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
            f"the changelog {self._topic!r}, partition {self._partition}, cannot be read from "
            f"Kafka at {self._settings.bootstrap_servers}: {error.str()}"
        )


def drain(
    consumer: Consumer, start: int, high: int, check: Check, keep: Keep, stopped: Callable[[], bool]
) -> ChangelogFindings:
    """Read an assigned partition as `Changelog.read` does."""
    found = ChangelogFindings()
    piece: dict[bytes, bytes | None] = {}
    size, reached = 0, start
    while reached < high and not stopped():
        # `consume` would wait for the whole time unless it gets 1,000 records.
        first = consumer.poll(_POLL_SECS)
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
                # The offsets below have only commit markers and compacted records.
                reached = max(reached, message.offset() or 0)
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
        raise FrameError("a record has no key: a table writes none without a key")
    return key, value
