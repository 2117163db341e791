"""A recovery never blocks. A full or broken disk ends the process with an error that names it."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

from kstorm.core.recovery import LocalCopy
from kstorm.errors import FrameError, StorageError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.app import make_app
from kstorm.runtime.store import changelog as module
from kstorm.runtime.store.changelog import ChangelogFindings, Check, drain
from kstorm.runtime.store.tables import RecoveringTable

NO_ROOM = "IO error: No space left on device: While appending to file"


class FullDisk:
    def write(self, batch: object) -> None:
        raise Exception(NO_ROOM)


def anything(key: bytes, value: bytes | None) -> None:
    """Accepts every record."""


def table(folder: Path) -> RecoveringTable:
    """Builds a table whose changelog is not read."""
    service: Any = None
    settings = Settings(topology="a:b", data_dir=folder)
    app = make_app("tables", settings, service)
    return RecoveringTable(
        app, "ledger", "changelog", 2, settings, structlog.get_logger(), anything
    )


async def test_a_disk_without_room_is_named(tmp_path: Path) -> None:
    """The error names the table, the folder and RocksDB's reason, and states that no data is lost."""
    made = table(tmp_path)
    made._store._open[0] = FullDisk()
    made._copies[0] = LocalCopy(b"topic", 6, 0.0)
    with pytest.raises(
        StorageError,
        match=rf"partition 0 of the table 'ledger'.*{tmp_path}: {NO_ROOM}.*Kafka has all of it",
    ):
        made.keep(0, [(b"k", b"v")], 7, 0.0)


async def test_a_folder_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """Another file has the name of a partition."""
    made = table(tmp_path)
    place = made._store._store.partition_path(1)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("no RocksDB")
    with pytest.raises(StorageError, match="partition 1 of the table 'ledger'"):
        await made.open(1)


class Record(NamedTuple):
    """A record of a changelog, with the methods of a client's message."""

    at: int
    pair: tuple[bytes, bytes | None]
    size: int = 10

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.pair[0]

    def value(self) -> bytes | None:
        return self.pair[1]

    def __len__(self) -> int:
        return self.size


class Changelog:
    """A client that, like the real one, waits for its timeout unless enough records are there."""

    def __init__(self, *pairs: tuple[bytes, bytes | None]) -> None:
        self.left = [Record(offset, pair) for offset, pair in enumerate(pairs)]
        self.waited = 0.0

    def poll(self, timeout: float) -> Record | None:
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, count: int, timeout: float) -> list[Record]:
        found, self.left = self.left[:count], self.left[count:]
        self.waited += timeout if len(found) < count else 0
        return found


Pieces = list[tuple[list[tuple[bytes, bytes | None]], int]]


def read(
    changelog: Any, high: int, check: Check = anything, stop_after: int = 1000
) -> tuple[Pieces, ChangelogFindings]:
    """Returns the stored pieces and the offset of each one. It stops after `stop_after` pieces."""
    pieces: Pieces = []
    found = drain(
        changelog,
        0,
        high,
        check,
        lambda some, to: pieces.append((some, to)),
        lambda: len(pieces) >= stop_after,
    )
    return pieces, found


def test_a_recovery_does_not_wait_for_more_than_there_is() -> None:
    """Three records are read as soon as they are there. The last value of a key counts."""
    changelog = Changelog((b"a", b"1"), (b"b", b"1"), (b"a", None))
    pieces, found = read(changelog, 3)
    assert pieces == [([(b"a", None), (b"b", b"1")], 2)]
    assert (found.records, found.refused) == (3, [])
    assert changelog.waited == 0


def test_recovery_memory_is_limited_to_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece is stored when it has enough keys or bytes. Every record is read once."""
    monkeypatch.setattr(module, "_PIECE_KEYS", 1500)
    pairs = [(b"%d" % number, b"v") for number in range(10_000)]
    pieces, found = read(Changelog(*pairs), 10_000)
    assert [pair for some, _ in pieces for pair in some] == pairs
    assert max(len(some) for some, _ in pieces) <= 1500 + 1000
    assert [reached for _, reached in pieces] == [2001, 4003, 6005, 8007, 9999]
    assert found.records == 10_000
    monkeypatch.setattr(module, "_PIECE_BYTES", 50)
    assert len(read(Changelog(*pairs), 10_000)[0]) == 10


def test_stopped_recovery_keeps_its_progress() -> None:
    """The next recovery continues after it."""
    pieces, _ = read(
        Changelog(*[(b"%d" % number, b"v") for number in range(50_000)]), 50_000, stop_after=1
    )
    assert [reached for _, reached in pieces] == [2001]


def test_refused_records_are_bounded() -> None:
    """Foreign programs may have written any number. Records beyond the limit are only counted."""

    def nothing(key: bytes, value: bytes | None) -> None:
        raise FrameError("no row")

    pieces, found = read(Changelog(*[(b"k", b"v")] * 3000), 3000, nothing)
    assert (pieces, len(found.refused), found.left_out) == ([], 1000, 2000)
    large = Changelog(*[(b"k", b"v")] * 3)
    large.left = [Record(record.at, record.pair, 8 << 20) for record in large.left]
    _, found = read(large, 3, nothing)
    assert (len(found.refused), found.left_out) == (2, 1)
