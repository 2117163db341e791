"""The status line, groups of equal troubles, and the marks of the timeline."""

import urllib.request
from typing import Any

import pytest

from kstorm.events import Event
from kstorm_ui.counters import CounterSums
from kstorm_ui.desk_counts import DeskCounts
from kstorm_ui.late_share import LateShare
from kstorm_ui.sources.report import ComponentReport, ProcessReport, TopologyReport
from kstorm_ui.status_line import status_line
from kstorm_ui.timeline import Timeline, marks_of
from kstorm_ui.topology_memory import TopologyMemory
from kstorm_ui.view_data import health, held
from tests.ui.server import MadeUp, serving, status, topology

_COMPONENTS = {"lines": "spout", "split": "bolt", "count": "bolt"}


def learned(**statuses: dict[str, Any]) -> TopologyMemory:
    memory = TopologyMemory(0.0)
    for second in 0.0, 2.0:
        report = topology("words", _COMPONENTS, [("lines", "split")], statuses)
        memory.learn(report, {}, second, 1_700_000_000.0 + second)
    return memory


def test_equal_troubles_are_one_sentence() -> None:
    """With the earliest time, if they differ only in times."""
    away = "Kafka has been unreachable since 18:37:{}"
    memory = learned(
        **{name: status(not_ready=away.format(33 + at)) for at, name in enumerate(_COMPONENTS)}
    )
    said = health(memory.state)
    assert said == (
        "Missing or not ready: 3 of 3 processes: Kafka has been unreachable since 18:37:33."
    )
    [cause] = held(memory.state)
    assert cause.said == "no process is ready of 3 components: lines, split, count"
    assert len(cause.evidence) == 3


@pytest.mark.parametrize(
    ("statuses", "word"),
    [
        ({}, "Healthy"),
        ({"count": status(not_ready="recovering")}, "Degraded"),
        ({name: status(not_ready="recovering") for name in _COMPONENTS}, "Down"),
        ({"lines": status("spout", active=False)}, "Deactivated"),
    ],
)
def test_health_has_a_word(statuses: dict[str, Any], word: str) -> None:
    state = learned(**statuses).state
    assert status_line(state, DeskCounts(), (), None).word == word


def test_status_line_names_the_first_cause() -> None:
    """It is on top of each page, and the list of causes only on one of them."""
    line = status_line(learned(count=status(unread="no rights")).state, DeskCounts(), (), None)
    assert (line.cause, line.more) == ("count cannot read its source", 0)
    line = status_line(learned().state, DeskCounts(), (), None)
    assert (line.cause, line.more) == ("", 0)


def test_open_pages_get_the_first_cause() -> None:
    """An error would end the stream of the status line, and the page would show a lost connection."""
    statuses = {"count": status(unread="no rights")}
    source = MadeUp(topology("words", _COMPONENTS, [("lines", "split")], statuses))
    with (
        serving(source) as url,
        urllib.request.urlopen(f"{url}/t/words/status", timeout=10) as stream,
    ):
        text = stream.read(2000).decode()
    assert '<p class="cause">' in text
    assert "count cannot read its source" in text


def test_status_line_does_not_say_twice_which_process_is_missing() -> None:
    """The sentence next to the word names it already."""
    line = status_line(learned(count=status(not_ready="recovering")).state, DeskCounts(), (), None)
    assert line.cause == ""


def test_late_share_covers_ten_minutes() -> None:
    """None without windows, and 0 if nothing is late."""
    share = LateShare()
    assert share.learn([CounterSums()], 0.0) is None
    assert share.learn([CounterSums(late=0, in_time=10)], 2.0) == 0.0
    assert share.learn([CounterSums(late=10, in_time=40)], 20.0) == pytest.approx(0.2)
    for second in range(30, 700, 10):
        found = share.learn([CounterSums(late=10, in_time=40 + second)], float(second))
    assert found == 0.0


def report(*processes: ProcessReport) -> TopologyReport:
    return TopologyReport("words", "here", [], processes)


def test_timeline_shows_kills_starts_and_moved_tasks() -> None:
    """Changes of the same kind within seconds are one mark. The first poll makes no mark."""
    timeline = Timeline()
    one = ProcessReport("a-0", "a", status(pid=1, tasks=[0]))
    two = ProcessReport("a-1", "a", status(pid=2, tasks=[1]))
    timeline.learn(report(one, two), 0.0)
    assert timeline.marks == []
    gone = ProcessReport("a-0", "a", None)
    timeline.learn(report(gone, ProcessReport("a-1", "a", status(pid=2, tasks=[0, 1]))), 2.0)
    assert [(mark.kind, mark.said) for mark in timeline.marks] == [
        ("kill", "ended or stopped responding: a-0"),
        ("rebalance", "tasks moved: a-1"),
    ]
    timeline.learn(report(ProcessReport("a-0", "a", status(pid=3)), two), 4.0)
    assert [(mark.at, mark.kind) for mark in timeline.marks] == [
        (2.0, "kill"),
        (2.0, "rebalance"),
        (4.0, "start"),
    ]


def test_timeline_names_the_components_of_many_processes() -> None:
    """Names of pods are long, and an outage ends all of them."""
    timeline = Timeline()
    pods = [("a", f"words-a-5cb96f74f8-{number}") for number in range(3)] + [("b", "words-b-0")]
    found = [ProcessReport(pod, name, status(pid=1)) for name, pod in pods]
    timeline.learn(report(*found), 0.0)
    timeline.learn(report(), 2.0)
    assert [mark.said for mark in timeline.marks] == [
        "ended or stopped responding: 4 processes of a, b"
    ]


def test_timeline_shows_rollouts_on_kubernetes() -> None:
    """An upgrade to another image, and a restart, change the revision of the pods' template."""

    def rolled(**revisions: str) -> TopologyReport:
        found = [
            ComponentReport(
                name,
                "bolt",
                1,
                f"ghcr.io/you/words-bolt:{revision[:2]}",
                "v1-a" if revision == "v2-" else revision,
            )
            for name, revision in revisions.items()
        ]
        process = ProcessReport("count-0", "count", status(pid=1))
        return TopologyReport("words", "streams", found, [process])

    timeline = Timeline()
    timeline.learn(rolled(split="", count="v1-a", sink="v1-a"), 0.0)
    timeline.learn(rolled(split="v1-a", count="v1-a", sink="v1-a"), 2.0)
    assert timeline.marks == []
    # Kubernetes reports the new image before the new revision.
    timeline.learn(rolled(split="v1-b", count="v2-", sink="v2-b"), 4.0)
    timeline.learn(rolled(split="v1-b", count="v2-b", sink="v2-b"), 6.0)
    assert [(mark.kind, mark.said) for mark in timeline.marks] == [
        ("deployment", "changed: split; sink, count (words-bolt:v2)")
    ]


def test_operators_events_are_marks() -> None:
    events = [
        Event(at=1000, who="anna", verb="drain"),
        Event(at=2000, who="ben", verb="restart", what="count"),
    ]
    assert [(mark.at, mark.kind, mark.said) for mark in marks_of(events)] == [
        (1.0, "operator", "drain by anna"),
        (2.0, "deployment", "restart count by ben"),
    ]
