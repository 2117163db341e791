"""The behaviour of Faust's store and its RocksDB that kstorm relies on.

An upgrade that changes it fails here.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from rocksdict import Rdict

from kstorm.core.recovery import LocalCopy
from kstorm.errors import StorageError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.app import make_app
from kstorm.runtime.store import faust_store
from kstorm.runtime.store.faust_store import FaustStore

COPY = LocalCopy(b"topic", 41, 1_800_000_000.5)


def make(folder: Path, name: str = "ledger") -> FaustStore:
    """Builds a store of another process with the same folder."""
    service: Any = None
    return FaustStore(
        make_app("tables", Settings(topology="a:b", data_dir=folder), service), name, 2, folder
    )


def test_the_members_of_faust_that_we_touch(tmp_path: Path) -> None:
    """Databases open on first use. They are in a dict, each one with its own folder."""
    store = make(tmp_path)._store
    assert store._dbs == {}
    paths = [store.partition_path(partition) for partition in range(2)]
    assert len(set(paths)) == 2
    assert not any(path.exists() for path in paths)
    assert store._db_for_partition(1) is store._dbs[1]
    assert isinstance(store._dbs[1], Rdict)
    assert [path.exists() for path in paths] == [False, True]
    store._dbs[1].put(b"raw", b"\xff")
    assert store._dbs[1].get(b"raw") == b"\xff"


def test_partitions_are_opened_side_by_side(tmp_path: Path) -> None:
    """Several threads open them while the store is created on first use."""
    for number in range(20):
        store, together = make(tmp_path, f"table-{number}"), Barrier(2)

        def open_one(
            partition: int, store: FaustStore = store, together: Barrier = together
        ) -> None:
            together.wait()
            store.open(partition)
            store.write(partition, [(b"a", b"1")], COPY)

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(open_one, range(2)))
        assert [list(store.items(partition)) for partition in range(2)] == [[(b"a", b"1")]] * 2
        for partition in range(2):
            store.close(partition)


def test_written_pairs_survive_a_restart(tmp_path: Path) -> None:
    """Changes and the copy's description are one batch. None deletes."""
    store = make(tmp_path)
    store.open(0)
    assert store.copy(0) is None
    store.write(0, [(b"a", b"1"), (b"b", b"1")], COPY)
    store.write(0, [(b"b", None), (b"c", b"")], COPY._replace(reached=42))
    store.close(0)
    again = make(tmp_path)
    again.open(0)
    assert again.copy(0) == COPY._replace(reached=42)
    assert list(again.items(0)) == [(b"a", b"1"), (b"c", b"")]
    assert (again.get(0, b"b"), again.get(0, b"c")) == (None, b"")


@pytest.mark.parametrize("number", [0, 1, 499, 500, 501, 1001])
def test_items_are_read_in_pieces(tmp_path: Path, number: int) -> None:
    """Each item is read once, despite concurrent writes. No iterator keeps the database open."""
    store = make(tmp_path)
    store.open(0)
    pairs = [(b"%06d" % key, b"v") for key in range(number)]
    store.write(0, pairs, COPY)
    found = []
    for pair in store.items(0):
        found.append(pair)
        store.write(0, [(pair[0], None)], COPY)
    assert found == pairs
    reading = store.items(0)
    next(reading, None)
    store.close(0)
    make(tmp_path).open(0)


def test_reading_does_not_open_a_closed_partition(tmp_path: Path) -> None:
    """An open database would block the process that has the task now."""
    store = make(tmp_path)
    with pytest.raises(StorageError, match="partition 1 of the table 'ledger' is not open"):
        store.get(1, b"a")
    store.open(1)
    store.close(1)
    store.close(1)
    with pytest.raises(StorageError, match="its task has left"):
        list(store.items(1))
    assert store._store._dbs == {}


def test_a_partition_that_another_process_has_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is limited, and the error then names the partition."""
    first, second = make(tmp_path), make(tmp_path)
    first.open(0)
    first.write(0, [(b"a", b"1")], COPY)
    pauses = []

    def pause(secs: float) -> None:
        pauses.append(secs)
        if len(pauses) == 2:
            first.close(0)

    # only this module's clock: threads of other tests sleep too
    monkeypatch.setattr(faust_store, "time", SimpleNamespace(monotonic=monotonic, sleep=pause))
    second.open(0)
    assert (second.get(0, b"a"), len(pauses)) == (b"1", 2)
    monkeypatch.setattr(faust_store, "_LOCKED_SECS", 0.0)
    with pytest.raises(StorageError, match=r"partition 0 of the table 'ledger'.*[lL]ock"):
        first.open(0)


def test_emptying(tmp_path: Path) -> None:
    """Rows and the copy's description are gone, and the folder is as small as before."""
    store = make(tmp_path)
    store.open(0)
    assert not store.empty(0)
    store.write(0, [(b"a", b"1")], COPY)
    before = sorted(path.name for path in store._store.partition_path(0).parent.iterdir())
    assert store.empty(0)
    assert (list(store.items(0)), store.copy(0)) == ([], None)
    assert sorted(path.name for path in store._store.partition_path(0).parent.iterdir()) == before
    store.write(0, [], COPY)
    assert store.empty(0)
    assert store.copy(0) is None


def test_leftover_folder_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    """The process was killed while it emptied a partition."""
    store = make(tmp_path)
    aside = faust_store._aside(store._store.partition_path(0))
    aside.mkdir(parents=True)
    (aside / "000004.sst").write_bytes(b"rows")
    store.open(0)
    assert not aside.exists()


@pytest.mark.parametrize("kept", [b"", b"\x93\x01\x02", b"\x94\x02\xc4\x01t\x01\xcb" + 8 * b"\0"])
def test_unreadable_copy_is_ignored(tmp_path: Path, kept: bytes) -> None:
    """If the copy is broken or of another version, the partition is emptied and recovered."""
    store = make(tmp_path)
    store.open(0)
    store._store._dbs[0].put(faust_store._COPY_KEY, kept)
    assert store.copy(0) is None
    assert store.empty(0)


def test_a_range_of_thousands_has_each_pair_once(tmp_path: Path) -> None:
    """The pieces of the read grow, and start at any key."""
    store = make(tmp_path)
    store.open(0)
    pairs = [(f"{number:05d}".encode(), b"x") for number in range(3000)]
    store.write(0, pairs, COPY)
    assert list(store.items(0)) == pairs
    assert list(store.items(0, b"00007")) == pairs[7:]
    assert list(store.items(0, b"01000", 5)) == pairs[1000:]
    store.close(0)
