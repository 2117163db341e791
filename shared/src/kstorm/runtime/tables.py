"""Tables on RocksDB that survive their process: Faust tables whose partitions and changelog we drive.

The rule: RocksDB is a cache of the changelog, and never ahead of it. A change is first written to the changelog; when
its transaction is committed, the same records are written to RocksDB in one batch, with the changelog offset that they
reach. So a killed process, a lost disk and a disk of an older life all recover alike: open, read the changelog from the
offset that the local copy has, go on. A record that none of ours can have written is left out, so that what its key had
stays.
"""

import asyncio
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from faust.types import TP

from kstorm.core.recovery import recovery
from kstorm.errors import BrokerError, FrameError, StorageError
from kstorm.runtime.app import ChannelApp
from kstorm.runtime.checkpoints import CheckpointWriter, Pair
from kstorm.runtime.log import Logger
from kstorm.runtime.settings import Settings

_OPTIONS = {  # of each partition, which is a RocksDB of its own; Faust's defaults would take gigabytes
    "driver": "rocksdict",
    "block_cache_size": 4 << 20,
    "write_buffer_size": 4 << 20,
    "max_write_buffer_number": 2,
    "target_file_size_base": 8 << 20,
    "max_open_files": 64,
}
_CLIENT_TIMEOUT = 20.0


Check = Callable[[bytes, bytes | None], None]
"""Raises `FrameError` for a key and value that no table of this kind can have written."""


class Opened(NamedTuple):
    """What opening a partition came to."""

    records: int
    """Changes read from the changelog."""
    refused: list[tuple[Message, str]]
    """Records left out, and why."""


class _Record(NamedTuple):
    """What Faust's store reads of a changelog message."""

    tp: TP
    offset: int
    key: bytes
    value: bytes | None

    @property
    def partition(self) -> int:
        partition: int = self.tp.partition
        return partition


class _Change(NamedTuple):
    message: _Record


class RecoveringTable:
    """One table; a partition belongs to the task of the same number. Used on the event loop only."""

    def __init__(
        self,
        app: ChannelApp,
        name: str,
        changelog: str,
        partitions: int,
        settings: Settings,
        log: Logger,
        check: Check,
    ) -> None:
        self._table = app.Table(name, partitions=partitions, key_type=bytes, value_type=bytes, options=dict(_OPTIONS))
        self._changelog, self._settings, self._log, self._check = changelog, settings, log, check

    @property
    def _store(self) -> Any:
        return self._table.data

    async def open(self, partition: int) -> Opened:
        """Opens a partition and brings it up to the end of its changelog.

        Raises `StorageError` if the disk is the problem, `BrokerError` if Kafka is.
        """
        tp = TP(self._changelog, partition)
        with self._blaming_disk(partition):
            await self._store._try_open_db_for_partition(partition)
            offset: int | None = self._store.persisted_offset(tp)
        recovered = await asyncio.to_thread(self._read_changelog, partition, -1 if offset is None else offset)
        if recovered.from_nothing:
            with self._blaming_disk(partition):
                for key, _ in self.items(partition):
                    self._db(partition).delete(key)
        if recovered.changes:
            self._apply(partition, recovered.changes, recovered.last_offset)
        return Opened(len(recovered.changes), recovered.refused)

    def get(self, partition: int, key: bytes) -> bytes | None:
        """The stored value of a key."""
        value: bytes | None = self._db(partition).get(key)
        return value

    def items(self, partition: int) -> list[tuple[bytes, bytes]]:
        """Every stored pair. A list: an open iterator would keep the database open."""
        return list(self._store._visible_items(self._db(partition)))

    async def write(
        self, writer: CheckpointWriter, changes: Mapping[int, Sequence[Pair]], offsets: Mapping[int, int]
    ) -> None:
        """Makes changes durable by partition: in the changelog first, with input offsets that they include, then here.

        Raises what `CheckpointWriter.write` does; `StorageError` if only the disk has not got them.
        """
        for partition, last_offset in (await writer.write(self._changelog, changes, offsets)).items():
            if partition in self._store._dbs:
                self._apply(partition, changes[partition], last_offset)

    def close(self, partition: int) -> None:
        """Lets go of a partition, so that another process may open its files."""
        db = self._store._dbs.pop(partition, None)
        self._store._key_index.clear()
        if db is not None:
            db.close()
            del db
            gc.collect()

    def _db(self, partition: int) -> Any:
        return self._store._db_for_partition(partition)

    def _apply(self, partition: int, changes: Iterable[tuple[bytes, bytes | None]], last_offset: int) -> None:
        tp = TP(self._changelog, partition)
        batch = [_Change(_Record(tp, last_offset, key, value)) for key, value in changes]
        with self._blaming_disk(partition):
            self._table.apply_changelog_batch(batch)

    @contextmanager
    def _blaming_disk(self, partition: int) -> Iterator[None]:
        """What RocksDB reports has no class of its own: it is an `Exception`, and no subclass of it."""
        try:
            yield
        except Exception as error:
            if type(error) is not Exception:
                raise
            raise StorageError(
                f"partition {partition} of the table {self._table.name!r} cannot be kept in KSTORM_DATA_DIR="
                f"{self._settings.data_dir}: {error}. Make room there, or give another folder; nothing is lost with it, as "
                "all of it is in Kafka"
            ) from None

    def _read_changelog(self, partition: int, persisted: int) -> "_Recovered":
        """The changelog behind `persisted`, or all of it if it is shorter than that. Blocks."""
        consumer = Consumer(
            {
                **self._settings.client_config,
                "group.id": f"{self._changelog}.recovery",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "fetch.message.max.bytes": 16 << 20,
                # The end is mostly the mark of a transaction, which is no record: that it is the end is heard only with an
                # answer that has nothing in it, and the broker holds that back so long, by default for 500 ms.
                "fetch.wait.max.ms": 20,
            }
        )
        try:
            low, high = self._ends(partition)
            start, from_nothing = recovery(persisted, low, high)
            consumer.assign([TopicPartition(self._changelog, partition, start)])
            return _Recovered(from_nothing, *_drain(consumer, start, high, self._check))
        except KafkaException as error:
            raise BrokerError(
                f"the changelog {self._changelog!r}, partition {partition}, cannot be read: {error.args[0].str()}"
            ) from None
        finally:
            consumer.close()

    def _ends(self, partition: int) -> tuple[int, int]:
        """The first offset and the end, transactions that are still open included."""
        place = TopicPartition(self._changelog, partition)
        asking = Consumer(
            {
                **self._settings.client_config,
                "group.id": f"{self._changelog}.recovery",
                "isolation.level": "read_uncommitted",
            }
        )
        try:
            low, high = asking.get_watermark_offsets(place, timeout=_CLIENT_TIMEOUT)
        finally:
            asking.close()
        return low, high


class _Recovered(NamedTuple):
    """What reading a changelog gave."""

    from_nothing: bool
    changes: list[tuple[bytes, bytes | None]]
    last_offset: int
    refused: list[tuple[Message, str]]


def _drain(
    consumer: Consumer, start: int, high: int, check: Check
) -> tuple[list[Pair], int, list[tuple[Message, str]]]:
    """What is committed up to the end offset; the last value per key is what counts.

    A transaction that is open there is waited for: its process may be dead, or about to commit.
    """
    latest: dict[bytes, bytes | None] = {}
    refused: list[tuple[Message, str]] = []
    reached = start
    while reached < high:
        first = consumer.poll(1.0)  # which `consume` would wait out, did it not find a thousand
        for message in [] if first is None else [first, *consumer.consume(1000, 0)]:
            error = message.error()
            if error is None:
                reached = (message.offset() or 0) + 1
                try:
                    key, value = _pair(message)
                    check(key, value)
                except FrameError as mistake:
                    refused.append((message, str(mistake)))
                else:
                    latest[key] = value
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = max(reached, message.offset() or 0)  # below are commit marks, and what was compacted away
            else:
                raise KafkaException(error)
    return list(latest.items()), high - 1, refused


def _pair(message: Message) -> Pair:
    key, value = message.key(), message.value()
    if not isinstance(key, bytes) or isinstance(value, str):
        raise FrameError("a record without a key: a table writes none")
    return key, value
