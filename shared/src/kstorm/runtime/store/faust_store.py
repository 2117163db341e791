"""The RocksDB partitions of a Faust table, opened, written and closed by kstorm.

Faust moves partitions and stores offsets in its own rebalance, which kstorm does not use. These
parts of its store are used:

- `app.Table(…).data` is the store. It is created on first access, and creates no database before a
  partition is opened.
- `open_partition` and `open_partitions` of `kstorm.runtime.faust_private`.
- `store.partition_path(n)` is the folder of one partition only.
- The database is a `rocksdict.Rdict` in raw mode: bytes in, bytes out, and atomic batches.

`tests/unit/runtime/test_faust_store.py` checks these assumptions.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import faust
import msgspec
from rocksdict import WriteBatch

from kstorm.core.recovery import LocalCopy
from kstorm.errors import StorageError
from kstorm.runtime.faust_private import open_partition, open_partitions
from kstorm.runtime.store.backend import AT_ONCE

# limits for each partition, which is a separate RocksDB; Faust's defaults would take gigabytes
_OPTIONS: Final = {
    "driver": "rocksdict",
    "block_cache_size": 4 << 20,
    "write_buffer_size": 4 << 20,
    "max_write_buffer_number": 2,
    "target_file_size_base": 8 << 20,
    "max_open_files": 64,
}
# This differs from all keys of tables: keys of a state are UTF-8, and keys of a ledger are digits.
_COPY_KEY: Final = b"\xffkstorm copy"
_FORMAT: Final = 1
_FIRST: Final = 8  # number of pairs in the first read of a range
# A process that is exiting may still hold the files.
_LOCKED_SECS, _LOCK_PAUSE_SECS = 30.0, 0.5

Pair = tuple[bytes, bytes | None]
"""A key and its value. The value None deletes the key."""


class FaustStore:
    """The open partitions of one table. Raises `StorageError` for RocksDB errors, except in `get`.

    A partition is opened, emptied and filled by one thread. Afterwards it is used by the event
    loop.
    """

    def __init__(self, app: faust.App, name: str, partitions: int, data_dir: Path) -> None:
        self._table = app.Table(
            name, partitions=partitions, key_type=bytes, value_type=bytes, options=dict(_OPTIONS)
        )
        self._name, self._data_dir = name, data_dir
        self._making = threading.Lock()
        # replaced by Faust's mapping once the store exists
        self._open: MutableMapping[int, Any] = {}

    @property
    def _store(self) -> Any:
        return self._table.data

    def open(self, partition: int, stopped: Callable[[], bool] = lambda: False) -> None:
        """Open a partition. Waits while another process has it open, unless `stopped` returns True.
        Blocks."""
        deadline = time.monotonic() + _LOCKED_SECS
        # The first access creates the store. The lock is needed because partitions are opened
        # concurrently.
        with self._making:
            self._open = open_partitions(self._store)
        # left by a process that was killed in `empty`
        left_over = _aside(self._store.partition_path(partition))
        shutil.rmtree(left_over, ignore_errors=True)
        with self._blaming_disk(partition):
            while True:
                try:
                    open_partition(self._store, partition)
                except Exception as error:
                    if "lock" not in str(error).lower() or time.monotonic() > deadline or stopped():
                        raise
                    time.sleep(_LOCK_PAUSE_SECS)
                else:
                    return

    def get(self, partition: int, key: bytes) -> bytes | None:
        # This does not use `_blaming_disk`, which would double the cost.
        value: bytes | None = self._db(partition).get(key)
        return value

    def items(
        self, partition: int, start: bytes = b"", at_once: int = AT_ONCE
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield every pair with a key from `start` on.

        No iterator stays open between the batches, because it would keep the database open.
        """
        after = start or None
        skips: bytes | None = None
        # The first batch is small, so that reading one pair does not cost hundreds.
        size = min(_FIRST, at_once)
        while True:
            with self._blaming_disk(partition):
                found = list(islice(self._db(partition).items(from_key=after), size))
            yield from ((key, value) for key, value in found if key != skips and key != _COPY_KEY)
            if len(found) < size:
                return
            after = skips = found[-1][0]
            size = min(8 * size, at_once)

    def copy(self, partition: int) -> LocalCopy | None:
        """Return the metadata stored with the partition. None if it is missing or invalid."""
        kept = self.get(partition, _COPY_KEY)
        try:
            return None if kept is None else _decode_copy(kept)
        except (msgspec.DecodeError, ValueError):
            return None

    def write(self, partition: int, changes: Iterable[Pair], copy: LocalCopy) -> None:
        """Write changes and the new metadata atomically."""
        batch = WriteBatch(raw_mode=True)
        for key, value in changes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        batch.put(_COPY_KEY, msgspec.msgpack.encode((_FORMAT, *copy)))
        with self._blaming_disk(partition):
            self._db(partition).write(batch)

    def empty(self, partition: int) -> bool:
        """Delete everything in an open partition and open it again. Return False if it was empty
        already. Blocks."""
        if next(self.items(partition), None) is None and self.get(partition, _COPY_KEY) is None:
            return False
        path: Path = self._store.partition_path(partition)
        self.close(partition)
        with self._blaming_disk(partition):
            # Rename first: a process that is killed here must not leave half a database.
            path.rename(_aside(path))
            shutil.rmtree(_aside(path))
        self.open(partition)
        return True

    def close(self, partition: int) -> None:
        """Close a partition, so that another process can open its files."""
        db = self._open.pop(partition, None)
        if db is not None:
            db.close()

    def _db(self, partition: int) -> Any:
        try:
            return self._open[partition]
        except KeyError:
            # Faust would open the partition here, and then no other process could.
            raise StorageError(
                f"partition {partition} of the table {self._name!r} is not open in this process: "
                "its task has left"
            ) from None

    @contextmanager
    def _blaming_disk(self, partition: int) -> Iterator[None]:
        """Raise RocksDB's errors as `StorageError`. They are plain `Exception` objects without a
        class of their own."""
        try:
            yield
        except Exception as error:
            if type(error) is not Exception and not isinstance(error, OSError):
                raise
            raise StorageError(
                f"partition {partition} of the table {self._name!r} cannot be stored in "
                f"KSTORM_DATA_DIR={self._data_dir}: {error}. Free space there, or set another "
                "folder; no data is lost, because Kafka has all of it"
            ) from None


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.old")


def _decode_copy(kept: bytes) -> LocalCopy:
    form, topic, reached, current = msgspec.msgpack.decode(kept, type=tuple[int, bytes, int, float])
    if form != _FORMAT:
        raise ValueError(form)
    return LocalCopy(topic, reached, current)
