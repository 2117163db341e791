"""What holds a topology back, from looks at its processes."""

from typing import Any

from kstorm.inspect.causes import Component, HoldUp, Look, causes

SECONDS = 10.0


def page(instance: str, **more: Any) -> dict[str, Any]:
    return {"instance": instance, "pid": 1, "begun_at": 5.0, **more}


def component(
    name: str, after: list[dict[str, Any]], kind: str = "bolt", processes: int = 1, lag: tuple[int, int] = (0, 0)
) -> Component:
    """Before, all that counts was at 0."""
    before = [page(found["instance"], pid=found["pid"]) for found in after]
    return Component(name, kind, processes, Look(100.0, before, lag[0]), Look(100.0 + SECONDS, after, lag[1]))


def kinds(*components: Component) -> list[tuple[str, str]]:
    return [(cause.component, cause.kind) for cause in causes(components)]


def only(*components: Component) -> HoldUp:
    (found,) = causes(components)
    return found


def sentences(**waits: float) -> Component:
    edges = [{"stream": "default", "target": "split", "tuples": 5}]
    return component("sentences", [page("sentences-0", edges=edges, waits=waits, busy_seconds=1.0)], "spout")


def split(**more: Any) -> Component:
    edges = [{"stream": "default", "target": "count", "tuples": 5}]
    return component("split", [page("split-0", edges=edges, **more)])


def test_nothing_holds_back_what_is_idle() -> None:
    """Nobody is busy, nobody waits."""
    assert causes([sentences(), split(busy_seconds=2.0), component("count", [page("count-0", busy_seconds=8.4)])]) == []


def test_who_is_busy_is_the_cause_and_who_waits_for_it_comes_behind() -> None:
    """Through all that is between them."""
    count = component("count", [page("count-0", busy_seconds=9.8)], lag=(50_000, 53_120))
    first, second = causes([sentences(pending_limit=9.0), split(busy_seconds=1.0), count])
    assert first.said == "count is the bottleneck: 98% busy, and its lag rises"
    assert first.evidence == ["count-0: 98% busy", "lag 53,120 records, rising"]
    assert second.said == "sentences waits for count"


def test_a_spout_that_waits_while_nobody_is_busy() -> None:
    """Then it is the limit itself, or somebody holds the trees."""
    assert "topology_max_spout_pending" in only(sentences(pending_limit=5.0), split()).said


def test_processes_that_are_missing_come_first() -> None:
    """Before one that is busy; and a component of which nobody answers before one that has some."""
    count = component("count", [page("count-0", busy_seconds=9.9)], lag=(20, 900))
    gone = Component("sink", "bolt", 2, Look(0, []), Look(SECONDS, []))
    assert kinds(count, component("split", [page("split-0")], processes=2), gone)[0] == ("sink", "processes missing")
    assert only(gone).said == "sink: 0 of 2 processes answer"


def test_one_hot_key() -> None:
    """Of a few tasks nearly all tuples, of many three times the share."""
    tasks = {"7": {"executed": 9500}, "8": {"executed": 500}}
    assert only(component("count", [page("count-0", by_task=tasks)])).kind == "hot task"
    even = {str(task): {"executed": 1000} for task in range(8)}
    assert causes([component("count", [page("count-0", by_task=even)])]) == []
    assert only(component("count", [page("count-0", by_task={**even, "3": {"executed": 6000}})])).kind == "hot task"
    few = {"7": {"executed": 90}, "8": {"executed": 1}}
    assert causes([component("count", [page("count-0", by_task=few)])]) == []


def test_what_processes_wait_for() -> None:
    """If it is for a good part of the time."""
    for wait, kind in (
        ("producer_queue", "producer queue"),
        ("epoch", "transactions"),
        ("input_throttled", "too much in flight"),
    ):
        assert only(split(waits={wait: 6.0})).kind == kind
        assert causes([split(waits={wait: 0.5})]) == []


def test_who_cannot_work_says_why() -> None:
    """At `/readyz`."""
    cause = only(split(not_ready="ZooKeeper does not answer"))
    assert (cause.kind, cause.evidence) == ("cannot work", ["split-0: ZooKeeper does not answer"])


def test_a_process_that_began_meanwhile_is_not_compared() -> None:
    """Its counts are of another life."""
    began = Component(
        "split", "bolt", 1, Look(0, [page("split-0", pid=3)]), Look(1, [page("split-0", busy_seconds=50.0)])
    )
    assert causes([began]) == []
