"""Topologies of this machine, as `./run topology` and `./run demo` run them: their files say where each process answers."""

from collections.abc import Sequence
from pathlib import Path

from kstorm.runtime.asking import ask_all
from kstorm.runtime.running import RunningTopology, find
from kstorm_ui.sources.report import ComponentReport, EdgeReport, ProcessReport, TopologyReport


class LocalSource:
    """`place` is the folder of one run, or one that has the folders of several."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __str__(self) -> str:
        return f"this machine, {self._place}"

    def look(self) -> Sequence[TopologyReport]:
        """Asks every process, some side by side."""
        return [_report(found) for found in find(self._place)]


def _report(found: RunningTopology) -> TopologyReport:
    answers = ask_all([worker.url for worker in found.workers])
    return TopologyReport(
        name=found.name,
        place="this machine",
        components=[
            ComponentReport(each.component, each.kind, found.wanted(each.component), each.topic, each.offsets)
            for each in found.components
        ],
        processes=[
            ProcessReport(worker.name, worker.component, status, "" if status is not None else "does not answer")
            for worker, status in zip(found.workers, answers, strict=True)
        ],
        edges=[EdgeReport(each.source, each.stream, each.target, each.grouping) for each in found.edges],
        bootstrap=found.bootstrap,
        zookeeper=found.zookeeper,
    )
