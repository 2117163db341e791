"""Reads topics and ZooKeeper for the audit with plain clients, without kstorm's runtime."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from kstorm.errors import BrokerError
from kstorm.runtime.kafka.client_errors import raise_first_error
from tests.chaos.findings import Letter, OffsetSeen, Record, RecordPlace
from tests.chaos.topology import SOURCE

_SILENCE_SECS: Final = 30.0
# The rest of a partition is fewer records than requested, so each such call waits this long.
_GATHER_SECS: Final = 0.1
_LOOK_SECS: Final = 1.0
_ANSWER_SECS: Final = 3.0
_STOP_SECS: Final = 5.0


class TopicReader:
    """Reads the committed records of whole topics. Raises `BrokerError` if records do not arrive.

    `bootstrap` is Kafka's bootstrap servers.
    """

    def __init__(self, bootstrap: str) -> None:
        self._config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-audit",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }

    def ends(self, topic: str) -> dict[int, int]:
        """Return the last offset plus one of each partition."""
        consumer = Consumer(self._config)
        try:
            partitions = consumer.list_topics(topic, timeout=_SILENCE_SECS).topics[topic].partitions
            return {
                partition: consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=_SILENCE_SECS
                )[1]
                for partition in sorted(partitions)
            }
        except KafkaException as error:
            raise BrokerError(
                f"the ends of topic {topic!r} are not told: {error.args[0].str()}"
            ) from None
        finally:
            consumer.close()

    def records(self, topic: str) -> Iterator[Record]:
        """Read all records from the beginning to the present end, one partition after the other."""
        consumer = Consumer(
            {**self._config, "enable.partition.eof": True, "auto.offset.reset": "error"}
        )
        try:
            for partition, end in self.ends(topic).items():
                low, _ = consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=_SILENCE_SECS
                )
                if end > low:
                    consumer.assign([TopicPartition(topic, partition, low)])
                    yield from _read_to(consumer, topic, partition, end)
        except KafkaException as error:
            raise BrokerError(f"topic {topic!r} cannot be read: {error.args[0].str()}") from None
        finally:
            consumer.close()

    def letters(self, topic: str) -> Iterator[Letter]:
        """Read the dead letters of a topology."""
        for record in self.records(topic):
            if not record.value:  # a discarded letter
                continue
            letter = _read_letter(record.value)
            place = RecordPlace(letter.topic, letter.partition, letter.offset)
            yield Letter(place, record.timestamp, letter.component, _id_of(letter.value or b""))


class _Letter(msgspec.Struct):
    component: str = ""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    value: bytes | None = None


class _Tuple(msgspec.Struct):
    """The tuple in a bolt's dead letter."""

    values: dict[str, Any]


def _id_of(value: bytes) -> str:
    """Return the id of a tuple's message, from the field `id` or the beginning of the text."""
    try:
        values = _read_tuple(value).values
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    return str(values.get("id") or str(values.get("str", "")).partition(" ")[0])


def _read_to(consumer: Consumer, topic: str, partition: int, end: int) -> Iterator[Record]:
    heard, reached = time.monotonic(), 0
    while reached < end:
        messages = consumer.consume(5000, _GATHER_SECS)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENCE_SECS:
            raise BrokerError(
                f"topic {topic!r}, partition {partition}, ends at {end}, but nothing came after {reached}"
            )
        for message in messages:
            error = message.error()
            if error is None:
                offset = message.offset() or 0
                yield Record(
                    RecordPlace(topic, partition, offset),
                    message.value() or b"",
                    message.timestamp()[1],
                )
                reached = offset + 1
            elif error.name() == "_PARTITION_EOF":
                reached = end  # only transaction markers are left
            else:
                raise KafkaException(error)


class OffsetWatch(threading.Thread):
    """Reads the stored offsets every second with a separate client, until `stop`.

    If `positions_at` (a Kafka) is given, it also reads the positions of the group that each offset
    names.
    """

    def __init__(self, connect: str, path: str, partitions: int, positions_at: str = "") -> None:
        super().__init__(name="offset-watch", daemon=True)
        self.seen: list[OffsetSeen] = []
        self._path, self._partitions = path, partitions
        self._client = KazooClient(
            connect, timeout=10.0, connection_retry={"max_tries": -1, "max_delay": 2.0}
        )
        self._ending = threading.Event()
        self._positions_at = positions_at
        self._asking: Consumer | None = None

    def run(self) -> None:
        self._client.start_async()
        while not self._ending.wait(_LOOK_SECS):
            if self._client.connected:
                self.look()

    def look(self) -> None:
        for partition in range(self._partitions):
            try:
                data, _ = self._client.get(f"{self._path}/partition_{partition}")
            except NoNodeError:
                continue
            except KazooException:
                return
            if data:  # otherwise no offset is stored yet
                stored, at = json.loads(data), int(time.time() * 1000)
                try:
                    position = self._position(stored, partition) if self._positions_at else None
                except KafkaException:  # a broker is down, so there is nothing to compare with
                    continue
                self.seen.append(OffsetSeen(partition, stored["offset"], at, position))

    def _position(self, stored: dict[str, Any], partition: int) -> int:
        if self._asking is None:
            config = {
                "bootstrap.servers": self._positions_at,
                "group.id": stored["group"],
                "log_level": 0,
            }
            self._asking = Consumer(config)
        found = self._asking.committed([TopicPartition(SOURCE, partition)], timeout=_ANSWER_SECS)
        raise_first_error(found)  # while a transaction ends, the position is unknown
        return int(found[0].offset)

    def stored(self) -> dict[int, int]:
        """Return the last seen offset of each partition."""
        return {seen.partition: seen.offset for seen in self.seen[-20 * self._partitions :]}

    def stop(self) -> None:
        self._ending.set()
        if self.is_alive():
            self.join(_STOP_SECS)  # it may be waiting for a ZooKeeper that is down
        self._client.stop()
        self._client.close()
        if self._asking is not None and not self.is_alive():
            self._asking.close()


_read_tuple = msgspec.json.Decoder(_Tuple).decode
_read_letter = msgspec.json.Decoder(_Letter).decode
