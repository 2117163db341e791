"""A recovery waits for nothing; a disk that is full or broken ends a process with an error that says so."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

from kstorm.errors import StorageError
from kstorm.runtime.app import make_app
from kstorm.runtime.settings import Settings
from kstorm.runtime.tables import RecoveringTable, _drain

NO_ROOM = "IO error: No space left on device: While appending to file"


class FullDisk:
    """A RocksDB that cannot write."""

    def write(self, batch: object) -> None:
        raise Exception(NO_ROOM)


class Writer:
    """A changelog that takes everything."""

    async def write(self, changelog: str, changes: object, offsets: object) -> dict[int, int]:
        return {0: 7}


def anything(key: bytes, value: bytes | None) -> None:
    """Refuses no record."""


def table(folder: Path) -> RecoveringTable:
    """A table whose changelog nobody is asked for."""
    executor: Any = None
    settings = Settings(topology="a:b", data_dir=folder)
    app = make_app("tables", settings, executor)
    return RecoveringTable(app, "ledger", "changelog", 2, settings, structlog.get_logger(), anything)


async def test_a_disk_without_room_is_named(tmp_path: Path) -> None:
    """With the table, the folder, what RocksDB says, and that nothing is lost."""
    made, writer = table(tmp_path), Writer()
    made._store._dbs[0] = FullDisk()
    with pytest.raises(
        StorageError, match=rf"partition 0 of the table 'ledger'.*{tmp_path}: {NO_ROOM}.*all of it is in Kafka"
    ):
        await made.write(writer, {0: [(b"k", b"v")]}, {0: 3})  # type: ignore[arg-type]


async def test_a_folder_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """Something else stands in the place of a partition."""
    made = table(tmp_path)
    place = made._store.partition_path(1)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("no RocksDB")
    with pytest.raises(StorageError, match="partition 1 of the table 'ledger'"):
        await made.open(1)


class Record(NamedTuple):
    """A record of a changelog, with what a client's message has."""

    at: int
    pair: tuple[bytes, bytes | None]

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.pair[0]

    def value(self) -> bytes | None:
        return self.pair[1]


class Changelog:
    """A client that, as the real one, waits out its time unless there is as much as it is asked for."""

    def __init__(self, *pairs: tuple[bytes, bytes | None]) -> None:
        self.left = [Record(offset, pair) for offset, pair in enumerate(pairs)]
        self.waited = 0.0

    def poll(self, timeout: float) -> Record | None:
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, count: int, timeout: float) -> list[Record]:
        found, self.left = self.left[:count], self.left[count:]
        self.waited += timeout if len(found) < count else 0
        return found


def test_a_recovery_does_not_wait_for_more_than_there_is() -> None:
    """Three records are read as soon as they are there; the last value of a key counts."""
    changelog: Any = Changelog((b"a", b"1"), (b"b", b"1"), (b"a", None))
    assert _drain(changelog, 0, 3, anything) == ([(b"a", None), (b"b", b"1")], 2, [])
    assert changelog.waited == 0
