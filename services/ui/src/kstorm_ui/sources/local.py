"""Topologies of this machine, run by `./run topology` and `./run demo`. Their files list the
address of each process."""

from collections.abc import Sequence
from pathlib import Path

from kstorm.errors import AbsentError
from kstorm.runtime.local_silence import why_silent
from kstorm.runtime.run_files import RunningTopology, find
from kstorm.runtime.status_client import fetch_status_of_all
from kstorm_ui.sources.process_logs import LogLife, lives_in
from kstorm_ui.sources.report import ComponentReport, ProcessReport, TopologyReport


class LocalSource:
    """`place` is the folder of one run, or a folder with the folders of several."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __str__(self) -> str:
        return f"this machine, {self.place}"

    def log(self, topology: str, process: str) -> Sequence[LogLife]:
        """Read the log in the folder of its run."""
        for found in find(self.place):
            for worker in found.workers:
                if (found.name, worker.name) == (topology, process):
                    return lives_in(Path(worker.log))
        raise AbsentError(f"{process} of {topology} does not run on this machine any more")

    def look(self) -> Sequence[TopologyReport]:
        """Query the processes, some in parallel."""
        return [_report(found) for found in find(self.place)]


def _report(found: RunningTopology) -> TopologyReport:
    answers = fetch_status_of_all([worker.url for worker in found.workers])
    return TopologyReport(
        name=found.name,
        place="this machine",
        components=[
            ComponentReport(component, kind, count)
            for component, (kind, count) in found.wanted_by_component.items()
        ],
        processes=[
            ProcessReport(
                worker.name,
                worker.component,
                status,
                "" if status is not None else why_silent(found, worker),
            )
            for worker, status in zip(found.workers, answers, strict=True)
        ],
        outline=found.topology,
        bootstrap=found.bootstrap,
        zookeeper=found.zookeeper,
    )
