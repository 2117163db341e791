"""Reads of a task's state by other programs, on a real RocksDB."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from kstorm.core.engine.effects import ApplyToStore, Transact
from kstorm.core.exactly_once.unfinished import MARK
from kstorm.core.recovery import LocalCopy
from kstorm.runtime.store.backend import OpenedPartition
from kstorm.runtime.store.stored_state import StoredState
from kstorm.runtime.store.tables import RecoveringTable
from kstorm.runtime.store.task_store import TaskStore
from tests.unit.runtime.test_tables import table


def recovered(folder: Path, task: int = 1) -> tuple[RecoveringTable, StoredState]:
    """Builds a task whose changelog was read up to offset 6."""
    made = table(folder)
    made._store.open(task)
    made._copies[task] = LocalCopy(b"topic", 6, 1000.0)
    return made, StoredState(TaskStore(made, "changelog", structlog.get_logger()))


def keys(
    stored: StoredState, prefix: str = "", after: str | None = None, most: int = 100
) -> tuple[list[str], bool]:
    pairs, more = stored.page(1, prefix, after, most)
    return [key for key, _ in pairs], more


def test_a_task_that_is_being_recovered_is_not_there(tmp_path: Path) -> None:
    """Its state is incomplete. A closed task and a task of another process are missing too."""
    made, stored = recovered(tmp_path)
    assert (stored.copy(1), stored.copy(0)) == (LocalCopy(b"topic", 6, 1000.0), None)
    made._store.open(0)
    assert stored.copy(0) is None
    made.close(1)
    assert stored.copy(1) is None


def test_a_checkpoint_moves_state_and_copy_together(tmp_path: Path) -> None:
    made, stored = recovered(tmp_path)
    assert stored.get(1, "the") is None
    made.keep(1, [(b"the", b"\x03")], 9, 2000.0)
    assert (stored.get(1, "the"), stored.copy(1)) == (b"\x03", LocalCopy(b"topic", 9, 2000.0))
    made.keep(1, [(b"the", None)], 12, 3000.0)
    assert stored.get(1, "the") is None


class Writer:
    """Accepts every checkpoint."""

    async def write(self, changelog: str, effect: Transact) -> Mapping[int, int]:
        return dict.fromkeys(effect.changes, 9)


async def test_checkpoint_updates_the_time_of_all_tasks(tmp_path: Path) -> None:
    """Kafka accepted the checkpoint with the offsets of all tasks.

    So an unchanged task was complete at that time too.
    """
    made = table(tmp_path)
    writer: Any = Writer()
    store = TaskStore(made, "changelog", structlog.get_logger(), now=lambda: 1200.0)
    store.lend(writer)
    for task in (0, 1):
        made._store.open(task)
        made._copies[task] = LocalCopy(b"topic", 6, 1000.0)
    changes = {1: [(b"the", b"\x03")]}
    await store.transact(Transact(changes, {0: 5, 1: 7}))
    assert [store.copy(task) for task in (0, 1)] == [LocalCopy(b"topic", 6, 1000.0)] * 2, (
        "it is not kept yet"
    )
    store.keep(ApplyToStore(changes, {1: 9}))
    assert [store.copy(task) for task in (0, 1)] == [
        LocalCopy(b"topic", 6, 1200.0),
        LocalCopy(b"topic", 9, 1200.0),
    ]
    store.close(0)
    assert store.copy(0) is None


def test_a_page_has_keys_in_their_order(tmp_path: Path) -> None:
    """They are sorted, filtered by prefix, and after the last key. Unfinished tuples are not keys."""
    made, stored = recovered(tmp_path)
    found = sorted([*(f"a{number:03}" for number in range(60)), "b", "ba", "ß", "\U0010ffff"])
    rows = [(key.encode(), b"\x01") for key in found]
    made.keep(1, [*rows, (MARK + bytes(8), b"\x90")], 80, 2000.0)
    assert keys(stored) == (found, False)
    assert keys(stored, prefix="b") == (["b", "ba"], False)
    assert keys(stored, prefix="b", after="b") == (["ba"], False)
    assert keys(stored, after="a058", most=3) == (["a059", "b", "ba"], True)
    assert keys(stored, prefix="c") == ([], False)
    assert keys(stored, prefix="b", after="a") == (["b", "ba"], False)
    assert keys(stored, prefix="b", most=2) == (["b", "ba"], False)


def test_a_page_of_large_values_is_short(tmp_path: Path) -> None:
    """It has at least one key, so that a reader makes progress."""
    made, stored = recovered(tmp_path)
    made.keep(1, [(b"%d" % number, bytes(700_000)) for number in range(5)], 80, 2000.0)
    assert keys(stored) == (["0", "1"], True)
    made.keep(1, [(b"2", bytes(5_000_000))], 81, 2000.0)
    assert keys(stored, after="1") == (["2"], True)


async def test_recovery_without_a_local_copy_is_told_for_two_minutes() -> None:
    """That of a copy that is only behind is not, because every restart has one."""
    opened = {
        0: OpenedPartition(7, [], True),
        1: OpenedPartition(5, []),
        2: OpenedPartition(0, [], True),
    }
    clock = [1000.0]

    class Opening:
        async def open(self, task: int) -> OpenedPartition:
            return opened[task]

    backend: Any = Opening()
    store = TaskStore(backend, "changelog", structlog.get_logger(), now=lambda: clock[0])
    for task in opened:
        await store.open(task)
    assert store.restored().startswith("has recovered task 0 from 7 changes in Kafka")
    clock[0] += 121
    assert store.restored() == ""
    of_deployment = TaskStore(backend, "changelog", structlog.get_logger(), keeps_disk=False)
    await of_deployment.open(0)
    assert of_deployment.restored() == ""  # its pods always start with an empty disk
