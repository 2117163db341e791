"""Sums of the counts that the processes of a topology report."""

from typing import Any, cast

import pytest

from kstorm.dev.local_processes import LocalProcesses
from kstorm.dev.progress_watch import ProgressWatch
from kstorm.runtime.service.status_counters import StatusCounters
from tests.unit.dev.stand_ins import StandInProcesses


def page(kind: str, pid: int, **counts: Any) -> dict[str, Any]:
    return {"kind": kind, "pid": pid, "begun_at": 1.0, "not_ready": "", "last_error": "", **counts}


def watched(*names: str) -> tuple[StandInProcesses, ProgressWatch]:
    """Return processes with these names, such as `count-0`, and a watch on them."""
    processes = StandInProcesses.named(*names)
    return processes, ProgressWatch(cast("LocalProcesses", processes))


def test_counts_of_a_component_are_the_sum_of_its_processes() -> None:
    """Latencies are added up too."""
    processes, watch = watched("count-0", "count-1")
    processes.pages = {
        "count-0": page("bolt", 1, executed=3, latency_counts=[1, 0]),
        "count-1": page("bolt", 2, executed=4, latency_counts=[0, 2]),
    }
    (count,) = watch.look().components
    assert (count.processes, count.ready, count.total.executed) == (2, 2, 7)
    assert count.total.latency_counts == (1, 2)


@pytest.mark.parametrize(
    "another", [{"pid": 2}, {"begun_at": 2.0}], ids=["another process", "the same, begun anew"]
)
def test_counts_survive_a_restart(another: dict[str, Any]) -> None:
    """A restarted process starts at zero.

    The component does not. Pending messages are not added up.
    """
    processes, watch = watched("count-0")
    processes.pages["count-0"] = page("bolt", 1, executed=100, pending=7)
    watch.look()
    processes.pages["count-0"] = None
    (count,) = watch.look().components
    assert (count.total.executed, count.total.pending) == (100, 0)
    processes.pages["count-0"] = page("bolt", 1, executed=5, pending=2) | another
    (count,) = watch.look().components
    assert (count.total.executed, count.total.pending) == (105, 2)


def test_silent_and_unready_processes_are_named() -> None:
    """A dead process is down, and so is one that waits for its tasks."""
    processes, watch = watched("split-0", "count-0", "count-1")
    processes.pages = {
        "split-0": page("bolt", 1),
        "count-0": {**page("bolt", 2), "not_ready": "recovering"},
    }
    assert watch.look().down == ["count-0", "count-1"]


def test_tree_results_come_from_spouts() -> None:
    """The acks of bolts and ackers do not count."""
    processes, watch = watched("acker-0", "count-0", "sentences-0")
    processes.pages = {
        "acker-0": page("acker", 1, acked=9),
        "count-0": page("bolt", 2, acked=80),
        "sentences-0": page("spout", 3, emitted=12, acked=8, failed=2),
    }
    snapshot = watch.look()
    assert [state.kind for state in snapshot.components] == ["spout", "bolt", "acker"]
    assert (snapshot.emitted, snapshot.acked, snapshot.failed) == (12, 8, 2)


def test_recent_counts_are_differences() -> None:
    """The rate covers the last seconds, not the whole run."""
    processes, watch = watched("sentences-0")
    processes.pages["sentences-0"] = page("spout", 3, acked=1000, latency_counts=[5, 5])
    watch.look()
    processes.pages["sentences-0"] = page("spout", 3, acked=1010, latency_counts=[5, 8])
    snapshot = watch.look()
    assert snapshot.components[0].recent.acked == 10
    assert snapshot.components[0].recent.latency_counts == (0, 3)
    assert snapshot.acked_per_second > 0


def test_histograms_of_different_lengths_can_be_added() -> None:
    """A process without a response has an empty histogram."""
    assert (StatusCounters() + StatusCounters(latency_counts=(1, 2))).latency_counts == (1, 2)


def test_newest_error_is_shown_with_its_age() -> None:
    """It may come from any process of the component, including dead ones."""
    processes, watch = watched("count-0", "count-1")
    processes.pages = {
        "count-0": {
            **page("bolt", 1),
            "last_error": "KeyError",
            "last_error_task": 0,
            "last_error_age": 5.0,
        },
        "count-1": {
            **page("bolt", 2),
            "last_error": "OSError",
            "last_error_task": 1,
            "last_error_age": 500.0,
        },
    }
    watch.look()
    processes.pages["count-0"] = page("bolt", 3)
    (count,) = watch.look().components
    assert count.last_error == "KeyError in task 0"
    assert count.last_error_age is not None
    assert 5 <= count.last_error_age < 100


def test_error_free_status_has_no_age() -> None:
    processes, watch = watched("count-0")
    processes.pages["count-0"] = page("bolt", 1)
    (count,) = watch.look().components
    assert (count.last_error, count.last_error_age) == ("", None)
