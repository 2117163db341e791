"""The pages show no warning for a quiet topology, and show each real problem."""

from typing import Any

import pytest

from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.verdict import Verdict, VerdictKind
from kstorm_ui import available_actions
from kstorm_ui.collector import Collector
from kstorm_ui.query_cache import QueryProblem
from kstorm_ui.site import Site
from kstorm_ui.sources.messages import OldestAnswer
from kstorm_ui.sources.partitions import PartitionState
from kstorm_ui.topology_memory import TopologyMemory
from tests.ui.server import MadeUp, status, topology


def learned(*polls: dict[str, Any]) -> TopologyMemory:
    """Return the memory of a spout and a bolt after polls, two seconds apart."""
    memory = TopologyMemory(0.0)
    for number, statuses in enumerate(polls):
        report = topology("words", {"lines": "spout", "count": "bolt"}, [], statuses)
        memory.learn(report, {}, 2.0 * number, 1_700_000_000.0 + 2.0 * number)
    return memory


def site_of(memory: TopologyMemory) -> Site:
    collector = Collector(MadeUp())
    collector.memories[memory.state.name] = memory
    return Site(collector)


def spout(acked: int, lag: int) -> dict[str, Any]:
    return status("spout", acked=acked, source={"lag": lag}, busy_seconds=acked * 0.002)


def test_backlog_below_a_second_is_not_a_cause() -> None:
    """Although it has grown since the last poll."""
    memory = learned({"lines": spout(0, 1)}, {"lines": spout(120, 21)})
    assert [cause.said for cause in memory.state.causes] == []


def test_ticks_are_not_counted_as_tuples() -> None:
    """Neither in totals, nor in rates, nor by task."""

    def counted(executed: int, ticks: int) -> dict[str, Any]:
        task: dict[str, Any] = {"executed": executed, "ticks": ticks, "acked": executed}
        return {"count": status(**task, by_task={"1": task})}

    memory = learned(counted(4, 4), counted(12, 12))
    count = memory.state.component("count")
    assert count is not None
    assert (count.executed, count.acked, count.execute_rate) == (0, 0, 0.0)
    assert [task.executed for task in memory.state.tasks["count"]] == [0]


def test_finished_partitions_are_not_listed_as_unfinished() -> None:
    found = OldestAnswer(
        [
            Verdict(MessageId("lines", 0, 7), VerdictKind.DONE, "done: the stored offset is 8"),
            Verdict(MessageId("lines", 1, 7), VerdictKind.NOT_STORED, "complete"),
            Verdict(MessageId("lines", 2, 7), VerdictKind.QUEUED, "waits in a queue"),
        ],
        True,
    )
    memory = learned({})
    html = site_of(memory).render(
        "why.html", state=memory.state, asked="", found=found, problem="", wrong=""
    )
    table = html.partition('id="oldest"')[2].partition("</table>")[0]
    assert ["lines/0/7" in table, "lines/1/7" in table, "lines/2/7" in table] == [
        False,
        False,
        True,
    ]
    assert "In 2 partitions the oldest message is done" in html


def test_both_lags_of_a_source_have_names() -> None:
    """The one from the stored offset, and the one in the memory of the processes."""
    memory = learned({})
    partition = PartitionState("lines", 0, 0, 200, 76, "lines-0", 124)
    shown = {
        "component": "lines",
        "topic": "lines",
        "partitions": [partition],
        "problem": "",
        "own": {"lag": 23.0},
    }
    html = site_of(memory).render(
        "sources.html", state=memory.state, problem=QueryProblem(), spouts=[shown], topics={}
    )
    assert '">behind</button>' in html
    assert "<dt>not done</dt><dd>23</dd>" in html


def test_a_laptop_has_no_pods() -> None:
    memory = learned({})
    assert site_of(memory).render("_tabs.html", state=memory.state, here="").count("pod") == 0
    shown = {"window": "600", "window_says": "", "components": []}
    assert "pods" not in site_of(memory).render("_components.html", state=memory.state, **shown)


@pytest.mark.parametrize(
    ("active", "offered"), [(True, ["deactivate", "drain"]), (False, ["activate", "drain"])]
)
def test_only_actions_that_change_something_are_offered(active: bool, offered: list[str]) -> None:
    allowed = frozenset({"activate", "deactivate", "drain"})
    assert available_actions.on_topology(allowed, active=active) == offered
