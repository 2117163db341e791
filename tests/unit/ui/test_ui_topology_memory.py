"""State computed from polls: counts that never decrease, rates, windows, bottlenecks."""

from typing import Any

import pytest

from kstorm.introspection.outline import Outline, OutlineEdge
from kstorm.runtime.service.status_counters import StatusCounters
from kstorm_ui.counters import CounterSums, ProcessCounters
from kstorm_ui.history import DAY, HOUR, History, HistoryPoint
from kstorm_ui.sources.report import ComponentReport, ProcessReport, TopologyReport
from kstorm_ui.time_windows import window
from kstorm_ui.topology_memory import TopologyMemory
from kstorm_ui.view_data import health, held, skew

_POINT = HistoryPoint(1.0, 1.0, 1.0, 0.0, 0.0, None, None, None)


def page(pid: int = 1, **more: Any) -> dict[str, Any]:
    """Return a `/status` response."""
    return {
        "kind": "bolt",
        "pid": pid,
        "begun_at": 100.0,
        "tasks": [0],
        "num_tasks": 2,
        "not_ready": "",
        **more,
    }


def report(
    *pages: dict[str, Any] | None, wanted: int = 1, kind: str = "bolt", names: tuple[str, ...] = ()
) -> TopologyReport:
    """Return a topology of a spout and `count`, whose processes return these pages."""
    processes = [
        ProcessReport(names[number] if names else f"count-{number}", "count", found)
        for number, found in enumerate(pages)
    ]
    processes.append(ProcessReport("lines-0", "lines", {"pid": 9, "begun_at": 1.0}))
    components = [ComponentReport("count", kind, wanted), ComponentReport("lines", "spout", 1)]
    outline = Outline("words", edges=[OutlineEdge("lines", "default", "count", "shuffle")])
    return TopologyReport("words", "here", components, processes, outline)


def count_of(memory: TopologyMemory) -> Any:
    found = memory.state.component("count")
    assert found is not None
    return found


def test_counts_of_a_dead_process_are_kept() -> None:
    """The next run starts at zero. Its pending tuples may have moved to other processes."""
    lives = ProcessCounters()
    lives.learn(page(executed=10, pending=4))
    lives.learn(None)
    assert (lives.total.figures.executed, lives.total.figures.pending) == (10, 0)
    lives.learn(page(pid=2, executed=3, pending=1))
    assert (lives.total.figures.executed, lives.total.figures.pending) == (13, 1)
    assert lives.starts == 2


def test_counts_of_a_deleted_pod_are_kept() -> None:
    """Its successor has another name. The change does not show up in rates."""
    memory = TopologyMemory(0.0)
    memory.learn(report(page(executed=500), names=("count-a",)), {}, 0.0, 200.0)
    for second in range(2, 90, 2):
        memory.learn(
            report(page(pid=2, executed=second), names=("count-b",)), {}, float(second), 200.0
        )
        assert count_of(memory).execute_rate <= 1.0
    assert count_of(memory).executed == 588
    assert [each.name for each in memory.state.processes["count"]] == ["count-b"]


def test_rates_begin_with_the_second_poll() -> None:
    """Counts from before a process was first seen are not new."""
    memory = TopologyMemory(0.0)
    memory.learn(report(page(executed=1_000_000)), {}, 0.0, 200.0)
    assert count_of(memory).execute_rate == 0
    memory.learn(report(page(executed=1_000_200)), {}, 2.0, 200.0)
    assert count_of(memory).execute_rate == 100
    memory.learn(report(page(executed=1_000_400), page(executed=5_000_000)), {}, 4.0, 200.0)
    assert count_of(memory).execute_rate == 100
    assert count_of(memory).executed == 6_000_400


def test_window_has_the_time_that_it_covers() -> None:
    """Its counts are of that time only. Pending is the current value."""
    memory = TopologyMemory(0.0)
    for minute in range(31):
        memory.learn(report(page(executed=100 * minute, pending=7)), {}, 60.0 * minute, 200.0)
    ten = window(memory, "600", 1800.0)
    assert (ten.figures["count"].executed, ten.figures["count"].pending) == (1000, 7)
    assert ten.says == "Counts of the last 10 min."
    three = window(memory, "10800", 1800.0)
    assert three.figures["count"].executed == 3000
    assert (
        three.says == "The web UI has watched for 30 min, so the counts cover that time, not 3 h."
    )
    assert window(memory, "all", 1800.0).figures["count"].executed == 3000
    assert window(memory, "nonsense", 1800.0).key == "all"


def test_an_hour_of_samples_and_a_day_of_minutes_are_kept() -> None:
    history = History()
    for second in range(0, 100_000, 50):
        history.add(
            float(second),
            {"count": _POINT},
            {"count": StatusCounters(executed=second, latency_counts=(1, 2))},
        )
    points = list(history.points("count"))
    assert points[0][0] == 99_950 - HOUR
    oldest = history.before(-1.0)
    assert oldest is not None
    assert 99_950 - DAY - 120 <= oldest[0] <= 99_950 - DAY
    assert oldest[1]["count"] == StatusCounters(executed=int(oldest[0]), latency_counts=(1, 2))


@pytest.mark.parametrize(
    ("more", "lag", "why"),
    [
        (
            {"not_ready": "tasks [0] are being recovered"},
            0,
            "no process of count is ready (0 of 1)",
        ),
        ({}, 500, "count reads nothing, lag 500 records and rising by 250/s"),
        ({}, 9, ""),  # transaction markers, which no group commits
        (
            {"frames_in": 200},
            5000,
            "count is 50.0 s behind, lag 5,000 records and rising by 2,500/s",
        ),
        ({"frames_in": 200}, 50, ""),
        ({"frames_in": 200, "busy_seconds": 1.99}, 0, "count is the bottleneck: 100 % busy"),
        ({"frames_in": 200, "busy_seconds": 1.0}, 0, ""),
        (
            {"kafka_away_since": 90.0, "not_ready": "Kafka is away"},
            0,
            "Kafka does not answer 1 of 2 processes",
        ),
    ],
)
def test_edge_is_held_back_by_its_targets_bottleneck(
    more: dict[str, Any], lag: int, why: str
) -> None:
    """With the text of `kstorm causes`, as in the list above the table."""
    memory = TopologyMemory(0.0)
    memory.learn(report(page(frames_in=0, busy_seconds=0.0)), {"count": {0: 0}}, 0.0, 200.0)
    memory.learn(report(page(**{"busy_seconds": 0.0, **more})), {"count": {0: lag}}, 2.0, 200.0)
    [edge] = memory.state.edges
    assert edge.held == why
    assert [cause.said for cause in memory.state.causes] == ([why] if why else [])
    assert [cause.said.partition(";")[0] for cause in held(memory.state)] == ([why] if why else [])


def test_edge_to_a_waiting_component_is_not_held_back() -> None:
    """Waiting is not a bottleneck, and neither is a deactivated spout."""
    memory = TopologyMemory(0.0)
    for at, waited in ((0.0, 0.0), (2.0, 1.9)):
        told = page(waits={"pending_limit": waited}, kind="spout", active=False)
        memory.learn(report(told, kind="spout"), {}, at, 200.0)
    assert [cause.kind for cause in memory.state.causes] == ["deactivated"]
    assert [edge.held for edge in memory.state.edges] == [""]


def test_causes_are_of_the_last_seconds() -> None:
    """A component that becomes busy is a cause however long it was idle, and stops being one soon
    after."""
    memory = TopologyMemory(0.0)
    told = {}
    for second in range(0, 60, 2):
        busy = max(0, min(second, 40) - 20)
        memory.learn(report(page(busy_seconds=busy, instance="count-0")), {}, float(second), 200.0)
        told[second] = [cause.kind for cause in memory.state.causes]
    assert [told[second] for second in (20, 30, 40, 50)] == [[], ["busy"], ["busy"], []]
    memory.learn(report(page(busy_seconds=20, instance="count-0"), None, wanted=2), {}, 60.0, 200.0)
    [cause] = held(memory.state)
    assert (cause.said, cause.evidence) == (
        "count: 1 of 2 processes ready",
        ["count-1: does not answer"],
    )


def test_lagging_ackers_are_a_cause() -> None:
    """With the remedy."""
    memory = TopologyMemory(0.0)
    memory.learn(report(page(frames_in=0), kind="acker"), {}, 0.0, 200.0)
    memory.learn(report(page(frames_in=200), kind="acker"), {"count": {0: 5000}}, 2.0, 200.0)
    assert [cause.said for cause in held(memory.state)] == [
        "count is 50.0 s behind, lag 5,000 records: add ackers"
    ]


def test_edge_counts_are_summed_over_processes_and_runs() -> None:
    first = CounterSums.of(
        {"edges": [{"stream": "s", "target": "t", "tuples": 5}], "waits": {"queue": 1.0}}
    )
    second = CounterSums.of(
        {"edges": [{"stream": "s", "target": "t", "tuples": 7}], "busy_seconds": 2.0}
    )
    both = first + second
    assert (both.edges, both.busy, both.waits) == ({("s", "t"): 12}, 2.0, {"queue": 1.0})
    assert (both - first).edges == {("s", "t"): 7}
    assert CounterSums.of({}).busy is None


def test_health_names_missing_and_unready_processes() -> None:
    memory = TopologyMemory(0.0)
    memory.learn(report(page()), {}, 0.0, 200.0)
    assert health(memory.state) == "All 2 processes are ready."
    memory.learn(report(page(), None, wanted=3), {}, 2.0, 200.0)
    assert health(memory.state) == (
        "Missing or not ready: count-1: does not answer; count has fewer processes than it should."
    )
    memory.lost()
    assert health(memory.state).startswith("The topology is not found any more")


def test_skew_is_the_maximum_load_over_the_median() -> None:
    """None if tasks report no load."""
    memory = TopologyMemory(0.0)
    told = {str(7 + task): {"executed": 90 if task == 2 else 10} for task in range(3)}
    memory.learn(report(page(tasks=[0, 1, 2], by_task=told)), {}, 0.0, 200.0)
    assert skew(memory.state.tasks["count"]) == 9.0
    memory.learn(report(page(tasks=[0, 1])), {}, 2.0, 200.0)
    assert skew(memory.state.tasks["count"]) is None


def test_counts_of_tasks_are_found_by_topology_wide_ids() -> None:
    """A component's ids are consecutive. A process that still recovers a task does not shift the
    others."""
    memory = TopologyMemory(0.0)
    whole = page(tasks=[0, 2], by_task={"11": {"executed": 5}, "13": {"executed": 7}})
    recovers = page(tasks=[1, 3], by_task={"14": {"executed": 9}})
    memory.learn(report(recovers, whole), {"count": {3: 40}}, 0.0, 200.0)
    found = [
        (each.task, each.process, each.executed, each.lag) for each in memory.state.tasks["count"]
    ]
    assert found == [
        (0, "count-1", 5, None),
        (1, "count-0", None, None),
        (2, "count-1", 7, None),
        (3, "count-0", 9, 40),
    ]


def test_watermarks_of_tasks_are_shown_with_what_they_wait_for() -> None:
    """None of a task that has none."""
    memory = TopologyMemory(0.0)
    counts = {"11": {"executed": 5}, "12": {"executed": 7}}
    times = {"12": {"watermark": 5000, "idle": False, "waits_for": "clicks[2]", "waits_at": 5000}}
    memory.learn(report(page(tasks=[0, 1], by_task=counts, watermarks=times)), {}, 0.0, 200.0)
    found = [(each.watermark, each.waits_for) for each in memory.state.tasks["count"]]
    assert found == [(None, ""), (5000, "clicks[2]")]
