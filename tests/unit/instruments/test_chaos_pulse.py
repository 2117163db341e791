"""The pulse detects that a topology works again after a fault, and that the fault has no more
effect."""

import time
from typing import Any, cast

import pytest

from kstorm.dev.local_processes import LocalProcesses
from tests.chaos.recovery_watch import RecoveryWatch
from tests.unit.dev.stand_ins import StandInProcesses


def spout(acked: int, pending: int = 0, pid: int = 1, **source: float) -> dict[str, Any]:
    """Return the page of a spout's process."""
    source = {"partitions": 6, "retries": 0, "oldest_pending_seconds": 0.1, **source}
    counts = {"acked": acked, "pending": pending, "tasks": [0], "source": source}
    return {
        "kind": "spout",
        "pid": pid,
        "begun_at": pid,
        "not_ready": "",
        "last_error": "",
        **counts,
    }


def bolt(
    executed: int, pid: int = 2, tasks: tuple[int, ...] = (0, 1), not_ready: str = ""
) -> dict[str, Any]:
    counts = {"executed": executed, "tasks": list(tasks)}
    return {
        "kind": "bolt",
        "pid": pid,
        "begun_at": pid,
        "not_ready": not_ready,
        "last_error": "",
        **counts,
    }


STANDBY = bolt(0, pid=9, tasks=())


class Watched:
    """A pulse and its pages."""

    def __init__(self) -> None:
        self._processes = StandInProcesses.named("messages-0", "split-0", "split-1")
        self.pulse = RecoveryWatch(
            cast("LocalProcesses", self._processes), {"messages": 1, "split": 2}
        )
        self.see(spout(100, pending=10), bolt(500))
        self.pulse.reset()

    def see(
        self,
        spout: dict[str, Any] | None,
        bolt: dict[str, Any] | None,
        other: dict[str, Any] | None = STANDBY,
    ) -> bool:
        self._processes.pages = {"messages-0": spout, "split-0": bolt, "split-1": other}
        self.pulse.look()
        return self.pulse.works_again


def test_recovery_needs_new_completions_and_work_by_every_process() -> None:
    """Either one alone is not enough."""
    watched = Watched()
    assert not watched.see(spout(110), bolt(501))  # these were open when the fault began
    assert not watched.see(spout(111), None)
    assert not watched.see(spout(111), bolt(500))
    assert not watched.see(spout(111), bolt(0, pid=3))  # back, but without work so far
    assert watched.see(spout(111), bolt(1, pid=3))


def test_tasks_may_move_to_another_process() -> None:
    """Another process must have all tasks of the missing one."""
    watched = Watched()
    assert not watched.see(spout(111), None, bolt(5, pid=9, tasks=(0,)))
    assert watched.see(spout(111), None, bolt(5, pid=9))
    assert watched.see(spout(111), bolt(501, tasks=(0,)), bolt(5, pid=9, tasks=(1,)))


def test_calm_needs_all_earlier_work_to_be_finished() -> None:
    """All processes are ready and all partitions are read.

    No old message and no retry is pending.
    """
    watched, long_ago = Watched(), time.monotonic() - 60
    watched.see(spout(200), bolt(600))
    assert watched.pulse.calm_since(long_ago)
    assert not watched.pulse.calm_since(time.monotonic())
    for pages in (
        (spout(200, oldest_pending_seconds=20.0), bolt(600)),
        (spout(200, retries=1), bolt(600)),
        (spout(200, partitions=0), bolt(600)),
        (spout(200), bolt(600, not_ready="recovers")),
        (spout(200), None),
        (None, bolt(600)),
    ):
        watched.see(*pages)
        assert not watched.pulse.calm_since(long_ago), pages


def test_longest_stop_is_the_longest_time_without_a_completed_tree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counts from the start of the fault."""
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    watched = Watched()
    for seconds, acked in ((2, 100), (3, 101), (1, 102), (2, 102)):
        clock += seconds
        watched.see(spout(acked), bolt(500))
    assert watched.pulse.stopped_for == 2
    assert watched.pulse.longest_stop == 5
