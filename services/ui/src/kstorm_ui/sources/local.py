"""Topologies of this machine, as `./run topology` and `./run demo` run them: their files say where each process answers."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from kstorm.local.running import RunningTopology, RunningWorker, find
from kstorm.topology.topology import ACKER_COMPONENT
from kstorm_ui.sources.asking import ask
from kstorm_ui.sources.report import ComponentReport, ProcessReport, TopologyReport

_AT_ONCE: Final = 16


class LocalSource:
    """`place` is the folder of one run, or one that has the folders of several."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __str__(self) -> str:
        return f"this machine, {self._place}"

    def look(self) -> Sequence[TopologyReport]:
        """Asks every process, some side by side."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [_report(found, list(pool.map(_ask, found.workers))) for found in find(self._place)]


def _report(found: RunningTopology, processes: Sequence[ProcessReport]) -> TopologyReport:
    outline = found.topology
    wanted = Counter(worker.component for worker in found.workers)
    return TopologyReport(
        name=outline.name,
        place="this machine",
        components=[
            *(ComponentReport(each.id, each.kind, wanted[each.id]) for each in outline.components),
            *([ComponentReport(ACKER_COMPONENT, "acker", wanted[ACKER_COMPONENT])] if outline.acker_tasks else []),
        ],
        processes=processes,
        outline=outline,
        bootstrap=found.bootstrap,
        zookeeper=found.zookeeper,
    )


def _ask(worker: RunningWorker) -> ProcessReport:
    status = ask(worker.url)
    return ProcessReport(worker.name, worker.component, status, "" if status is not None else "does not answer")
