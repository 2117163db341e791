"""Bottlenecks, found from snapshots of the processes and of the lag of their groups."""

from typing import Any

import pytest

from kstorm.operations.status.bottlenecks import Bottleneck, bottlenecks_of, describe
from kstorm.operations.status.snapshots import (
    Backlog,
    ComponentChange,
    ComponentSnapshot,
    ProcessSnapshot,
    TopologySnapshot,
    compare,
)

SECONDS = 10.0


def page(instance: str, **more: Any) -> dict[str, Any]:
    return {"instance": instance, "pid": 1, "begun_at": 5.0, **more}


def component(
    name: str,
    after: list[dict[str, Any]],
    kind: str = "bolt",
    processes: int | None = None,
    lag: tuple[Any, Any] | None = None,
    gone: tuple[ProcessSnapshot, ...] = (),
) -> ComponentChange:
    """Builds a change from counters of 0.

    `lag` is the lag before and after, of one or more partitions.
    """
    before = [
        ProcessSnapshot(found["instance"], page(found["instance"], pid=found["pid"]))
        for found in after
    ]
    now = [*(ProcessSnapshot(found["instance"], found) for found in after), *gone]
    first, second = lag or (None, None)
    wanted = len(now) if processes is None else processes
    looks = (
        ComponentSnapshot(100.0, before, backlog(0.0, first)),
        ComponentSnapshot(100.0 + SECONDS, now, backlog(SECONDS, second)),
    )
    return ComponentChange(name, kind, wanted, *looks)


def backlog(at: float, behind: Any) -> Backlog | None:
    if behind is None:
        return None
    return Backlog(at, behind if isinstance(behind, dict) else {0: behind})


def kinds(*components: ComponentChange) -> list[tuple[str, str]]:
    return [(cause.component, cause.kind) for cause in bottlenecks_of(components)]


def only(*components: ComponentChange) -> Bottleneck:
    (found,) = bottlenecks_of(components)
    return found


def sentences(waits: Any = None, lag: int = 0, **more: Any) -> ComponentChange:
    """Builds a spout that sends to `split`. Its processes report its lag."""
    edges = [{"stream": "default", "target": "split", "tuples": 5}]
    found = page(
        "sentences-0", edges=edges, waits=waits or {}, busy_seconds=1.0, source={"lag": lag}, **more
    )
    return component("sentences", [found], "spout")


def split(**more: Any) -> ComponentChange:
    edges = [{"stream": "default", "target": "count", "tuples": 5}]
    return component("split", [page("split-0", edges=edges, **more)])


def test_idle_topology_has_no_causes() -> None:
    """A few transaction markers do not count as lag."""
    count = component(
        "count", [page("count-0", busy_seconds=8.4)], lag=({0: 0, 1: 0}, {0: 9, 1: 9})
    )
    assert bottlenecks_of([sentences(), split(busy_seconds=2.0), count]) == []


def failing(offset: int, attempts: int, **more: Any) -> dict[str, Any]:
    place = {"topic": "clicks", "partition": 2, "offset": offset, "attempts": attempts}
    return {**place, "error": "", "where": "", "timed_out": False, **more}


def test_a_message_that_fails_again_and_again_is_a_cause() -> None:
    """The cause has coordinates, attempts and the last error. It needs at least three attempts."""
    poison = failing(0, 2026, error="ValueError", where="sessions.py:14")
    found = only(sentences(failing=[failing(8, 2), poison]))
    assert (found.kind, found.evidence) == ("failing message", [])
    assert found.said == "clicks/2/0 has failed 2,026 times: ValueError, sessions.py:14"
    found = only(sentences(failing=[failing(5, 4), failing(3, 5, timed_out=True)]))
    assert found.said == "clicks/2/3 has failed 5 times: timed out, and 1 more messages fail"
    assert found.evidence == ["clicks/2/5 has failed 4 times: failed by a bolt"]
    assert bottlenecks_of([sentences(failing=[failing(8, 2)])]) == []


def test_busy_component_ranks_above_components_that_wait_for_it() -> None:
    """This holds through components in between. The evidence has the lags and their growth."""
    count = component(
        "count", [page("count-0", busy_seconds=9.8)], lag=({0: 50_000, 1: 1}, {0: 62_000, 1: 120})
    )
    first, second = bottlenecks_of(
        [sentences({"pending_limit": 9.0}, lag=4_000), split(busy_seconds=1.0), count]
    )
    assert (
        first.said == "count is the bottleneck: 98 % busy, lag 62,120 records and rising by 1,212/s"
    )
    assert first.evidence == ["count-0: 98 % busy", "count[0] has 62,000 of them"]
    assert second.said == "sentences waits for count"
    assert second.evidence == ["sentences-0: 90 % of the time", "lag 4,000 messages"]


def test_busy_component_with_a_missing_process_is_one_cause() -> None:
    """It is one line, because the missing process may be the reason."""
    gone = ProcessSnapshot("count-1", None, "CrashLoopBackOff: back-off 5m0s", 1_700_000_000.0)
    cause = only(
        component("count", [page("count-0", busy_seconds=9.9)], lag=(900, 900), gone=(gone,))
    )
    assert (
        cause.said
        == "count is the bottleneck: 99 % busy, lag 900 records and steady, 1 of 2 processes ready"
    )
    assert cause.evidence == ["count-0: 99 % busy", "count-1: CrashLoopBackOff: back-off 5m0s"]
    assert describe(cause, 1_700_000_240.0).endswith("ready; since 22:13:20 UTC (4 min)")


def test_rising_lag_raises_the_rank_of_a_busy_component() -> None:
    keeps, falls_behind = (
        component(name, [page(f"{name}-0", busy_seconds=9.9)], lag=lag)
        for name, lag in (("keeps", (800, 700)), ("falls", (100, 700)))
    )
    found = bottlenecks_of([keeps, falls_behind])
    assert [cause.component for cause in found] == ["falls", "keeps"]
    assert found[1].said.endswith("lag 700 records and falling by 10/s")


def test_component_scaled_to_0_is_the_first_cause() -> None:
    """It comes before all others, and lists the components that wait for it."""
    count = component("count", [], processes=0, lag=(20_000, 25_000))
    away = component("sink", [], processes=2)
    first, second, third = bottlenecks_of([sentences({"pending_limit": 9.0}), split(), away, count])
    assert first.said == "count is scaled to 0: no process should run"
    assert first.evidence == ["lag 25,000 records and rising by 500/s"]
    assert second.said == "no process of sink is ready (0 of 2)"
    assert third.said == "sentences waits for count"


def test_crashed_and_unready_pods_are_causes() -> None:
    """The cause has the reason and, if known, the time. Without any pod, the component is stopped."""
    gone = tuple(
        ProcessSnapshot(f"split-{number}", None, "Error", 1_700_000_000.0 + number)
        for number in (1, 2)
    )
    cause = only(component("split", [page("split-0")], gone=gone))
    assert (cause.kind, cause.said) == ("processes missing", "split: 1 of 3 processes ready")
    assert (cause.evidence, cause.since) == (["split-1: Error", "split-2: Error"], 1_700_000_001.0)
    none = only(component("split", [], gone=gone))
    assert (none.kind, none.said) == ("not there", "no process of split is ready (0 of 2)")
    assert none.weight > cause.weight
    recovers = component(
        "split", [page("split-0"), page("split-1", not_ready="tasks [1] are being recovered")]
    )
    assert only(recovers).kind == "cannot work"
    assert only(recovers).evidence == ["split-1: tasks [1] are being recovered"]
    many = component(
        "split",
        [page("split-0")],
        gone=tuple(ProcessSnapshot(f"p{number}", None) for number in range(8)),
    )
    assert only(many).evidence[-2:] == ["p4: does not answer", "and 3 more"]


def test_kafka_outage_is_reported_once() -> None:
    """The number of affected components does not matter. Other missing processes are reported too."""
    says = {
        "not_ready": "Kafka has been unreachable since …: no broker answered",
        "kafka_away_since": 1_700_000_000.0,
    }
    spout = component("sentences", [page("sentences-0", **says)], "spout")
    count = component("count", [page("count-0"), page("count-1", **says)])
    cause = only(spout, count)
    assert cause.said == "Kafka does not answer 2 of 3 processes"
    assert cause.evidence == ["sentences-0: Kafka has been unreachable since …: no broker answered"]
    assert cause.since == 1_700_000_000.0
    dead = component("split", [], gone=(ProcessSnapshot("split-0", None, "Error"),))
    assert kinds(spout, count, dead) == [("", "kafka away"), ("split", "not there")]
    (found,) = bottlenecks_of([split()], "no Kafka broker answered at h:9092")
    assert (found.kind, found.evidence) == ("kafka away", ["no Kafka broker answered at h:9092"])


def test_deactivation_is_reported_once() -> None:
    """The cause has the operator and the time, for any number of spouts. Spouts are then not slow."""
    told = {
        "active": False,
        "remark": "deactivated since … from h (pid 1)",
        "deactivated_since": 1_700_000_000.0,
    }
    others = component(
        "others", [page("others-0", active=False, **{k: told[k] for k in ("remark",)})], "spout"
    )
    cause = only(sentences(lag=90_000, **told), others)
    assert (cause.component, cause.kind) == ("", "deactivated")
    assert (cause.evidence, cause.since) == (
        ["deactivated since … from h (pid 1)"],
        1_700_000_000.0,
    )
    assert kinds(sentences(active=True)) == []


def test_unreadable_source_is_a_cause() -> None:
    cause = only(sentences(unread="the topic 'lines' is not there", lag=700))
    assert cause.said == "sentences cannot read its source"
    assert cause.evidence == ["sentences-0: the topic 'lines' is not there"]


def test_stuck_transaction_is_a_cause() -> None:
    """The cause has the partition and the latest possible start."""
    waits = "topic t partition 3: a transaction has been open for at least 12 s"
    cause = only(split(input_waits=waits, input_waits_since=1_700_000_000.0))
    assert (cause.kind, cause.evidence, cause.since) == (
        "open transaction",
        [waits],
        1_700_000_000.0,
    )


def test_lost_disk_is_told_for_a_while() -> None:
    cause = only(split(recovered="has recovered task 1 from 9 changes in Kafka"))
    assert (cause.kind, cause.weight) == ("recovered", 0.1)
    assert cause.said == "split-0 has recovered task 1 from 9 changes in Kafka"


def test_pending_limit_without_a_busy_component() -> None:
    assert "topology_max_spout_pending" in only(sentences({"pending_limit": 5.0}), split()).said


def test_long_lag_of_an_idle_component_is_a_cause() -> None:
    """The cause has its duration. A few seconds of backlog are not a cause.

    For an acker, the remedy is more ackers.
    """
    slow = component("count", [page("count-0", frames_in=100)], lag=(600, 600))
    assert only(slow).said == "count is 1 min behind, lag 600 records and steady"
    assert (
        bottlenecks_of([component("count", [page("count-0", frames_in=100)], lag=(40, 40))]) == []
    )
    stuck = component("count", [page("count-0", frames_in=0)], lag=(500, 600))
    assert only(stuck).said == "count reads nothing, lag 600 records and rising by 10/s"
    acker = component("__acker", [page("acker-0", frames_in=100)], "acker", lag=(600, 600))
    assert only(acker).said.endswith(": add ackers")


def test_spout_slower_than_its_source_is_a_cause() -> None:
    """This requires that its consumers are idle and that it does not wait for its trees."""
    behind = {"lag": 9_000, "acked": 100}
    cause = only(sentences(**behind), split())
    assert (
        cause.said
        == "sentences is behind its source: lag 9,000 messages, about 15 min of work, and no component that it sends to is busy"
    )
    assert kinds(sentences(**behind), split(busy_seconds=9.9)) == [("split", "busy")]
    assert bottlenecks_of([sentences(lag=300, acked=1_000)]) == []
    assert only(sentences(lag=300)).said.endswith("lag 300 messages, and emits nothing")


@pytest.mark.parametrize(
    ("executed", "hot"), [((9500, 500), True), ((90, 1), False), ((1000,) * 8, False)]
)
def test_one_hot_key(executed: tuple[int, ...], hot: bool) -> None:
    """A key is hot if one of a few tasks executes nearly all tuples."""
    tasks = {str(7 + number): {"executed": count} for number, count in enumerate(executed)}
    found = kinds(component("count", [page("count-0", by_task=tasks)]))
    assert found == ([("count", "hot task")] if hot else [])


def test_one_hot_key_of_many_tasks() -> None:
    """The task has three times its share, and the lag shows the waiting tuples."""
    tasks = {str(7 + number): {"executed": 6000 if number == 3 else 1000} for number in range(8)}
    cause = only(
        component(
            "count",
            [page("count-0", by_task=tasks, frames_in=900)],
            lag=({0: 0, 3: 0}, {0: 5, 3: 95}),
        )
    )
    assert cause.said == "count: one of its 8 tasks has 46 % of the tuples, because one key is hot"
    assert cause.evidence == [
        "task 10: 6,000 of 13,000 tuples",
        "lag 100 records and rising by 10/s",
        "count[3] has 95 of them",
    ]


@pytest.mark.parametrize(
    ("wait", "kind"),
    [
        ("producer_queue", "producer queue"),
        ("epoch", "transactions"),
        ("input_throttled", "too much in flight"),
    ],
)
def test_long_waits_are_causes(wait: str, kind: str) -> None:
    """A wait is long if it takes much of the time. The cause has the start of a constant wait."""
    assert only(split(waits={wait: 6.0})).kind == kind
    assert bottlenecks_of([split(waits={wait: 0.5})]) == []
    before = page("split-0", waits_since={wait: 1_700_000_000.0})
    after = page("split-0", waits={wait: 9.0}, waits_since={wait: 1_700_000_000.0})
    looks = (
        ComponentSnapshot(0.0, [ProcessSnapshot("split-0", before)]),
        ComponentSnapshot(SECONDS, [ProcessSnapshot("split-0", after)]),
    )
    assert only(ComponentChange("split", "bolt", 1, *looks)).since == 1_700_000_000.0
    assert only(split(waits={wait: 6.0}, waits_since={wait: 1_700_000_000.0})).since is None


def test_unready_process_shows_its_reason() -> None:
    cause = only(split(not_ready="ZooKeeper does not answer"))
    assert (cause.kind, cause.evidence) == ("not there", ["split-0: ZooKeeper does not answer"])


def test_restarted_process_is_not_compared() -> None:
    """Its counts are of the new run, also the lag that a spout's process reports."""
    before = ProcessSnapshot("split-0", page("split-0", pid=3, source={"lag": 9}))
    after = ProcessSnapshot("split-0", page("split-0", busy_seconds=50.0, source={"lag": 900}))
    began = ComponentChange(
        "split", "bolt", 1, ComponentSnapshot(0, [before]), ComponentSnapshot(1, [after])
    )
    assert bottlenecks_of([began]) == []
    assert (
        ComponentChange(
            "split", "spout", 1, ComponentSnapshot(0, [before]), ComponentSnapshot(1, [after])
        ).growth
        is None
    )


def test_snapshots_are_compared_component_by_component() -> None:
    """A new component has no earlier snapshot. A removed one is left out."""
    before = TopologySnapshot(1.0, {"old": ("bolt", 1)}, {"old": [ProcessSnapshot("old-0", None)]})
    after = TopologySnapshot(
        2.0,
        {"new": ("bolt", 2)},
        {"new": [ProcessSnapshot("new-0", page("new-0"))]},
        {"new": Backlog(2.0, {0: 5})},
    )
    (found,) = compare(before, after)
    assert (found.name, found.kind, found.processes, found.before.processes) == (
        "new",
        "bolt",
        2,
        (),
    )
    assert (found.ready, found.lag, found.growth) == (1, 5, None)


def visits(before: dict[str, Any], after: dict[str, Any], **more: Any) -> ComponentChange:
    """Builds two snapshots of a windowed bolt."""
    pages = [page("visits-0", **found, **more) for found in (before, after)]
    looks = [
        ComponentSnapshot(at, [ProcessSnapshot("visits-0", found)], None)
        for at, found in zip((100.0, 110.0), pages, strict=True)
    ]
    return ComponentChange("visits", "bolt", 1, *looks)


def times(at: int | None, most: int | None = 500_000, waits_for: str = "task 2 of clicks") -> Any:
    """Builds the watermark of a task in `/status`."""
    own = {"watermark": at, "idle": False, "waits_for": waits_for, "waits_at": at, "most": most}
    return {"watermarks": {"3": own}}


def test_late_tuples_are_a_cause_with_their_share() -> None:
    """Only late tuples since the first snapshot count."""
    found = only(
        visits(
            {"own": {"late_total": 5, "in_time_total": 100}},
            {"own": {"late_total": 8, "in_time_total": 197}},
        )
    )
    assert found.kind == "late tuples"
    assert found.said.startswith("visits: 3.0 % of its tuples are late and in no window (3 of 100)")
    assert bottlenecks_of([visits({"own": {"late_total": 5}}, {"own": {"late_total": 5}})]) == []


def test_an_input_that_holds_event_time_back_is_a_cause() -> None:
    """Another input must be ahead, and this one must not have moved."""
    found = only(visits(times(100_000), times(100_000)))
    assert found.kind == "event time"
    assert found.said.startswith("visits: event time does not advance because of task 2 of clicks")
    assert found.evidence == ["task 3 waits for task 2 of clicks, 6 min behind"]
    unknown = only(visits(times(None), times(None)))
    assert unknown.evidence == ["task 3 has no event time of task 2 of clicks yet"]
    for before, after in (
        (times(100_000), times(100_001)),
        (times(100_000, most=100_500), times(100_000, most=100_500)),
        (times(None, most=None), times(None, most=None)),
    ):
        assert bottlenecks_of([visits(before, after)]) == []
