"""Bottlenecks of a topology, as in `kstorm causes`, from the polls of the last seconds."""

from collections.abc import Sequence

from kstorm.operations.status.bottlenecks import Bottleneck, bottlenecks_of
from kstorm.operations.status.recent_snapshots import RecentSnapshots
from kstorm.operations.status.snapshots import Backlog, ProcessSnapshot, TopologySnapshot
from kstorm.runtime.kafka.lag import Lags
from kstorm_ui.sources.report import TopologyReport


class RecentBottlenecks:
    """Bottlenecks of one topology."""

    def __init__(self) -> None:
        self._recent = RecentSnapshots()

    def learn(
        self, report: TopologyReport, lags: Lags, now: float, no_broker: str = ""
    ) -> Sequence[Bottleneck]:
        """Add a poll. Return the bottlenecks, the most significant first. `now` is a monotonic
        time. `no_broker` is the error if no broker responds."""
        changes = self._recent.learn(_snapshot(report, lags, now))
        return bottlenecks_of(changes, no_broker)


def _snapshot(report: TopologyReport, lags: Lags, now: float) -> TopologySnapshot:
    processes: dict[str, list[ProcessSnapshot]] = {}
    for each in report.processes:
        process = ProcessSnapshot(each.name, each.status, each.trouble, each.since)
        processes.setdefault(each.component, []).append(process)
    wanted = {each.component: (each.kind, each.processes) for each in report.components}
    return TopologySnapshot(
        now, wanted, processes, {name: Backlog(now, behind) for name, behind in lags.items()}
    )
