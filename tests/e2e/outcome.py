"""The result of a run: a row for each disturbance, and the audit."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from kstorm.local.audit import Audited
from tests.e2e.pipeline import Counted
from tests.e2e.release import Sample

_HEADER: Final = ("disturbance", "ready\nagain, s", "longest\nstop, s", "worst\nmessage, s", "words\nwritten again")


@dataclass(frozen=True, slots=True)
class Episode:
    """One disturbance, from its beginning until the next."""

    name: str
    begin: float
    """Seconds since 1970."""
    ready: float
    """When every pod was ready again."""
    end: float

    def longest_stop(self, samples: Sequence[Sample]) -> float:
        """Most seconds without a new record in the sink."""
        seen = [sample for sample in samples if self.begin - 1 <= sample.at <= self.end]
        grown = [after.at for before, after in pairwise(seen) if after.sink > before.sink]
        return max((after - before for before, after in pairwise(grown)), default=self.end - self.begin)

    def worst_message(self, slowest: Sequence[tuple[float, float]]) -> float:
        """Most seconds from a message to its last word in the sink, of those that were under way meanwhile."""
        during = (after - before for before, after in slowest if before <= self.end and after >= self.begin)
        return max(during, default=0.0)

    def replays(self, copies: dict[str, int]) -> int:
        """Words that were written again meanwhile."""
        return sum(count for second, count in copies.items() if self.begin - 1 <= int(second) < self.end - 1)


@dataclass(frozen=True, slots=True)
class E2eOutcome:
    episodes: Sequence[Episode]
    samples: Sequence[Sample]
    audit: dict[str, Any]
    counted: Counted | None
    """What the pipeline's tables say; None if there was no pipeline."""
    audited: Audited | None
    """What became of each message, by what the spout says; None if there was no pipeline."""
    posted: int
    left: Sequence[str]
    """Objects that `helm uninstall` left, but for claims of volumes."""
    circumstances: str

    def faults(self) -> Iterator[str]:
        audit = self.audit
        if audit["lost"]:
            yield f"{audit['lost']:,} words were lost, such as {', '.join(audit['some_lost'])}"
        if audit["strange"]:
            yield f"{audit['strange']:,} words are in the sink that no message has"
        if audit["copies"]:
            yield f"{sum(audit['copies'].values()):,} words were written again, although the topology is processed exactly once"
        if audit["miscounted"]:
            yield f"these words have another count than occurrences: {', '.join(audit['miscounted'])}"
        if audit["sentences"] < self.posted:
            yield f"Kafka had taken {self.posted:,} messages, and {audit['sentences']:,} are in the source"
        if self.counted is not None:
            yield from self.counted.faults()
        if self.audited is not None:
            yield from self.audited.faults()
        if self.left:
            yield f"helm uninstall left {', '.join(self.left)}"

    def show(self, console: Console) -> None:
        table = Table(box=None, pad_edge=False)
        for number, name in enumerate(_HEADER):
            table.add_column(name, justify="right" if number else "left", no_wrap=True)
        for row in self._rows():
            table.add_row(*row)
        console.print(table)
        console.print(self._sum(), highlight=False)
        for fault in self.faults():
            console.print(f"[red]NOT GOOD[/] {fault}", highlight=False)

    def write(self, page: Path) -> None:
        """Between the two marks of a page, for the documentation."""
        begin, end = "<!-- e2e begins -->", "<!-- e2e ends -->"
        before, _, rest = page.read_text().partition(begin)
        _, _, after = rest.partition(end)
        lines = [f"{time.strftime('%Y-%m-%d')}, {self.circumstances}. {self._sum()}", ""]
        header = [name.replace("\n", " ") for name in _HEADER]
        lines += [f"| {' | '.join(row)} |" for row in (header, ("---",) * len(_HEADER), *self._rows())]
        page.write_text(before + "\n".join((begin, *lines, end)) + after)

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for one in self.episodes:
            stop, again = one.longest_stop(self.samples), one.replays(self.audit["copies"])
            worst = one.worst_message(self.audit["slowest"])
            yield one.name, f"{one.ready - one.begin:.1f}", f"{stop:.1f}", f"{worst:.1f}", f"{again:,}"

    def _sum(self) -> str:
        audit = self.audit
        again = sum(audit["copies"].values())
        tables = f" Words counted by the pipeline: {self.counted.gold.total():,}." if self.counted else ""
        tables += f" Accounted for: {self.audited}." if self.audited else ""
        return (
            f"{audit['sentences']:,} messages, {audit['words']:,} words; **lost {audit['lost']:,}**, strange "
            f"{audit['strange']:,}, written again {again:,}.{tables}"
        )
