"""The result of a run: a row for each disturbance, and the audit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Console
from rich.table import Table

from kstorm.dev.pipeline_audit import AuditedTable
from tests.e2e.inside.findings import Findings
from tests.e2e.pipeline import Counted
from tests.e2e.release import Sample
from tests.e2e.trial import Trial


@dataclass(frozen=True, slots=True)
class Episode:
    """One disturbance, from its start to that of the next."""

    name: str
    begin: float
    """Seconds since 1970."""
    ready: float
    """When every pod was ready again."""
    end: float

    def longest_stop(self, samples: Sequence[Sample]) -> float:
        """Return the most seconds without a new record in the sink."""
        seen = [sample for sample in samples if self.begin - 1 <= sample.at <= self.end]
        grown = [after.at for before, after in pairwise(seen) if after.sink > before.sink]
        return max(
            (after - before for before, after in pairwise(grown)), default=self.end - self.begin
        )

    def worst_message(self, slowest: Sequence[tuple[float, float]]) -> float:
        """Return the most seconds to its last output of any message in flight meanwhile."""
        during = (
            after - before
            for before, after in slowest
            if before <= self.end and after >= self.begin
        )
        return max(during, default=0.0)

    def replays(self, copies: dict[str, int]) -> int:
        """Return the number of outputs that were written again meanwhile."""
        return sum(
            count
            for second, count in copies.items()
            if self.begin - 1 <= int(second) < self.end - 1
        )


@dataclass(frozen=True, slots=True)
class E2eOutcome:
    trial: Trial
    episodes: Sequence[Episode]
    samples: Sequence[Sample]
    findings: Findings
    counted: Counted | None
    """The content of the pipeline's tables. None without a pipeline."""
    audited: AuditedTable | None
    """The audit of the spout's reports about each message. None without a pipeline."""
    posted: int
    left: Sequence[str]
    """Objects that `helm uninstall` left, except volume claims."""
    circumstances: str

    def faults(self) -> Iterator[str]:
        yield from self.findings.faults(self.trial.outputs)
        if self.findings.messages < self.posted:
            yield f"Kafka had taken {self.posted:,} messages, and {self.findings.messages:,} are in the source"
        if self.counted is not None:
            yield from self.counted.faults()
        if self.audited is not None:
            yield from self.audited.faults()
        if self.left:
            yield f"helm uninstall left {', '.join(self.left)}"

    def show(self, console: Console) -> None:
        table = Table(box=None, pad_edge=False)
        for number, name in enumerate(self.header):
            table.add_column(name, justify="right" if number else "left", no_wrap=True)
        for row in self.rows():
            table.add_row(*row)
        console.print(table)
        console.print(self.sum(), highlight=False)
        for fault in self.faults():
            console.print(f"[red]NOT GOOD[/] {fault}", highlight=False)

    @property
    def header(self) -> Sequence[str]:
        """The table's columns, broken into lines for a terminal."""
        again = f"{self.trial.outputs}\nwritten again"
        return ("disturbance", "ready\nagain, s", "longest\nstop, s", "worst\nmessage, s", again)

    def rows(self) -> Iterator[Sequence[str]]:
        """Yield a row for each disturbance."""
        for one in self.episodes:
            stop, again = one.longest_stop(self.samples), one.replays(self.findings.copies)
            worst = one.worst_message(self.findings.slowest)
            yield (
                one.name,
                f"{one.ready - one.begin:.1f}",
                f"{stop:.1f}",
                f"{worst:.1f}",
                f"{again:,}",
            )

    def sum(self) -> str:
        """Return the audit in one line."""
        found = self.findings
        letters = f", dead letters {found.letters:,}" if found.letters else ""
        tables = (
            f" {self.counted.gold.total():,} {self.counted.unit} in the pipeline's table."
            if self.counted
            else ""
        )
        tables += f" Accounted for: {self.audited}." if self.audited else ""
        return (
            f"{found.messages:,} messages, {found.due:,} {self.trial.outputs}; **lost {found.lost:,}**, strange "
            f"{found.strange:,}, written again {found.written_again:,}{letters}.{tables}"
        )
