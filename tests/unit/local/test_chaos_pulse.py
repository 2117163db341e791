"""When a topology works again after a fault, and when nothing of the fault is left."""

import time
from typing import Any, cast

import pytest

from kstorm.local.cluster import LocalProcesses
from tests.chaos.pulse import Pulse
from tests.unit.local.stand_ins import StandInProcesses


def spout(acked: int, pending: int = 0, pid: int = 1, **source: float) -> dict[str, Any]:
    """The page of a spout's process."""
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
    """A pulse, and the pages that it sees."""

    def __init__(self) -> None:
        self._processes = StandInProcesses.named("messages-0", "split-0", "split-1")
        self.pulse = Pulse(cast("LocalProcesses", self._processes), {"messages": 1, "split": 2})
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


def test_it_works_again_when_more_is_complete_than_was_open_and_everybody_has_worked() -> None:
    """One without the other is not enough."""
    watched = Watched()
    assert not watched.see(spout(110), bolt(501))  # these were open when it broke
    assert not watched.see(spout(111), None)
    assert not watched.see(spout(111), bolt(500))
    assert not watched.see(spout(111), bolt(0, pid=3))  # back, and has done nothing yet
    assert watched.see(spout(111), bolt(1, pid=3))


def test_tasks_may_go_on_elsewhere() -> None:
    """Of a process that is not back, another has all tasks; half of them are not enough."""
    watched = Watched()
    assert not watched.see(spout(111), None, bolt(5, pid=9, tasks=(0,)))
    assert watched.see(spout(111), None, bolt(5, pid=9))
    assert watched.see(spout(111), bolt(501, tasks=(0,)), bolt(5, pid=9, tasks=(1,)))


def test_it_is_calm_when_what_was_there_at_the_moment_is_finished() -> None:
    """All ready, nothing old, nothing that waits for its retry, every partition being read; and not before that is known."""
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


def test_the_longest_stop_is_the_longest_time_without_a_completed_tree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Since the fault began."""
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    watched = Watched()
    for seconds, acked in ((2, 100), (3, 101), (1, 102), (2, 102)):
        clock += seconds
        watched.see(spout(acked), bolt(500))
    assert watched.pulse.stopped_for == 2
    assert watched.pulse.longest_stop == 5
