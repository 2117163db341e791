"""The RocksDB partitions of a Faust table, opened, written and closed by us: all that is touched of Faust's private members.

Faust moves partitions and keeps offsets by its own rebalance, which we do not have. What we use of its store:

* `app.Table(…).data` is the store, made at the first look at it; it makes no database before a partition is opened;
* `store._db_for_partition(n)` opens a partition, and is blocking; `store._dbs` has the open ones by number;
* `store.partition_path(n)` is the partition's folder, and has nothing of another partition;
* the database is a `rocksdict.Rdict` in raw mode: bytes in, bytes out, a batch at once or not at all.

`tests/unit/runtime/test_faust_store.py` holds these.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from rocksdict import WriteBatch

from kstorm.core.recovery import Copy
from kstorm.errors import StorageError
from kstorm.runtime.service.app import ChannelApp
from kstorm.runtime.store.backend import AT_ONCE

_OPTIONS: Final = {  # of each partition, which is a RocksDB of its own; Faust's defaults would take gigabytes
    "driver": "rocksdict",
    "block_cache_size": 4 << 20,
    "write_buffer_size": 4 << 20,
    "max_write_buffer_number": 2,
    "target_file_size_base": 8 << 20,
    "max_open_files": 64,
}
_COPY_KEY: Final = (
    b"\xffkstorm copy"  # no key of a table is this one: a state's are UTF-8, a ledger's digits
)
_FORMAT: Final = 1
_FIRST: Final = 8  # pairs that are read at first, of a range
_LOCKED_SECS, _LOCK_PAUSE_SECS = (
    30.0,
    0.5,
)  # a process that is ending may hold the files for a while

Pair = tuple[bytes, bytes | None]
"""A key and its value; None deletes it."""


class FaustStore:
    """The open partitions of one table. RocksDB's errors come out as `StorageError`, but for those of
    `get`.

    A partition is opened, emptied and filled by one thread; once it is in use, by the event loop.
    """

    def __init__(self, app: ChannelApp, name: str, partitions: int, data_dir: Path) -> None:
        self._table = app.Table(
            name, partitions=partitions, key_type=bytes, value_type=bytes, options=dict(_OPTIONS)
        )
        self._name, self._data_dir = name, data_dir
        self._making = threading.Lock()

    @property
    def _store(self) -> Any:
        return self._table.data

    def open(self, partition: int, stopped: Callable[[], bool] = lambda: False) -> None:
        """Opens a partition, waiting while another process has it open, unless `stopped` says so. Blocks."""
        deadline = time.monotonic() + _LOCKED_SECS
        with self._making:  # the first look makes the store, and partitions are opened side by side
            _ = self._store
        left_over = _aside(
            self._store.partition_path(partition)
        )  # by a process that was killed in `empty`
        shutil.rmtree(left_over, ignore_errors=True)
        with self._blaming_disk(partition):
            while True:
                try:
                    self._store._db_for_partition(partition)
                except Exception as error:
                    if "lock" not in str(error).lower() or time.monotonic() > deadline or stopped():
                        raise
                    time.sleep(_LOCK_PAUSE_SECS)
                else:
                    return

    def get(self, partition: int, key: bytes) -> bytes | None:
        """The value of a key."""
        value: bytes | None = self._db(partition).get(
            key
        )  # without `_blaming_disk`, which would double its cost
        return value

    def items(
        self, partition: int, start: bytes = b"", at_once: int = AT_ONCE
    ) -> Iterator[tuple[bytes, bytes]]:
        """Every pair whose key is not before `start`.

        Between those read at once there is no open iterator, which would keep the database open."""
        after = start or None
        skips: bytes | None = None
        size = min(_FIRST, at_once)  # who wants the next pair does not pay for hundreds
        while True:
            with self._blaming_disk(partition):
                found = list(islice(self._db(partition).items(from_key=after), size))
            yield from ((key, value) for key, value in found if key != skips and key != _COPY_KEY)
            if len(found) < size:
                return
            after = skips = found[-1][0]
            size = min(8 * size, at_once)

    def copy(self, partition: int) -> Copy | None:
        """What is kept with the partition; None if nothing is that can be read."""
        kept = self.get(partition, _COPY_KEY)
        try:
            return None if kept is None else _decode_copy(kept)
        except (msgspec.DecodeError, ValueError):
            return None

    def write(self, partition: int, changes: Iterable[Pair], copy: Copy) -> None:
        """Writes changes and what the copy is then, both or neither."""
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
        """Throws away all that an open partition has, and opens it again; False if there was nothing. Blocks."""
        if next(self.items(partition), None) is None and self.get(partition, _COPY_KEY) is None:
            return False
        path: Path = self._store.partition_path(partition)
        self.close(partition)
        with self._blaming_disk(partition):
            path.rename(
                _aside(path)
            )  # first, as a process that is killed here must not leave half a database
            shutil.rmtree(_aside(path))
        self.open(partition)
        return True

    def close(self, partition: int) -> None:
        """Lets go of a partition, so that another process may open its files."""
        db = self._store._dbs.pop(partition, None)
        if db is not None:
            db.close()

    def _db(self, partition: int) -> Any:
        try:
            return self._store._dbs[partition]
        except KeyError:  # Faust would open it here, and another process could not
            raise StorageError(
                f"partition {partition} of the table {self._name!r} is not open in this process: its task has gone"
            ) from None

    @contextmanager
    def _blaming_disk(self, partition: int) -> Iterator[None]:
        """What RocksDB reports has no class of its own: it is an `Exception`, and no subclass of it."""
        try:
            yield
        except Exception as error:
            if type(error) is not Exception and not isinstance(error, OSError):
                raise
            raise StorageError(
                f"partition {partition} of the table {self._name!r} cannot be kept in KSTORM_DATA_DIR={self._data_dir}: "
                f"{error}. Make room there, or give another folder; nothing is lost with it, as all of it is in Kafka"
            ) from None


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.old")


def _decode_copy(kept: bytes) -> Copy:
    form, topic, reached, current = msgspec.msgpack.decode(kept, type=tuple[int, bytes, int, float])
    if form != _FORMAT:
        raise ValueError(form)
    return Copy(topic, reached, current)
