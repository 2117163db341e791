"""The result of a demo run: the verdict in sentences, the table at the end, and both as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kstorm.dev.demo.audit import DemoFindings
from kstorm.dev.demo.kills import Kill
from kstorm.dev.demo.pipeline_run import DemoTables
from kstorm.dev.pipeline_audit import AuditedTable
from kstorm.runtime.base.metrics import quantile
from kstorm.runtime.service.status_counters import format_seconds
from kstorm.topology.config import EXACTLY_ONCE

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of one process, over all its restarts."""

    cpu_seconds: float
    peak_rss: int
    """The most resident memory that was seen, in bytes."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The results of the stage in which messages flow."""

    messages: int
    acked: int
    """Completed trees."""
    failed: int
    """Trees that failed or timed out."""
    emitted: int
    """Trees that were begun."""
    seconds: float
    """From the first message to the last completed tree."""
    undisturbed_per_second: float
    """Completed trees per second in the first half, before the first kill."""
    complete_latency_counts: Sequence[int]
    """The times from emit to ack of a tree, as a histogram."""
    kills: Sequence[Kill]

    @property
    def per_second(self) -> float:
        """Messages per second over the whole stage, including the time spent waiting for killed
        processes and for timeouts."""
        return self.messages / self.seconds


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The results of one run, and the findings of the audits."""

    guarantee: str
    """The topology's guarantee."""
    load: LoadResult
    findings: DemoFindings
    tables: DemoTables
    audited: AuditedTable
    usage: Mapping[str, Usage]
    """The usage of each process, including the embedded servers and Spark."""
    directory: Path
    """The folder with the logs and tables."""
    took: Mapping[str, float]
    """The duration of each stage in seconds, in order, including the set-up if this command did it."""

    @property
    def replayed(self) -> int:
        """The number of times that a message was emitted again."""
        return max(0, self.load.emitted - self.load.messages)

    @property
    def wrong(self) -> dict[str, int]:
        """Words with a wrong result in the sink topic or in the gold table, each with that result."""
        return {**self.tables.wrong(self.findings.truth), **self.findings.short}

    def faults(self) -> list[str]:
        """One sentence for each lost or wrong result; empty after a good run."""
        found: list[str] = []
        findings, truth = self.findings, self.findings.truth
        if findings.lost:
            places = ", ".join(f"{each.partition}-{each.offset}" for each in findings.lost[:_SHOWN])
            found.append(
                f"{len(findings.lost)} messages lack words in the sink topic, such as {places}"
            )
        if findings.short:
            few = ", ".join(
                f"{word!r} {count} of {truth[word]}" for word, count in _some(findings.short)
            )
            found.append(f"{len(findings.short)} words are counted short in the sink topic: {few}")
        if findings.foreign:
            found.append(
                f"{len(findings.foreign)} records of the sink topic are invalid: {findings.foreign[:_SHOWN]}"
            )
        if self.guarantee == EXACTLY_ONCE:
            found += self._repeated()
        if wrong := self.tables.wrong(truth):
            few = ", ".join(
                f"{word!r} {count} instead of {truth.get(word, 0)}" for word, count in _some(wrong)
            )
            found.append(f"{len(wrong)} words are wrong in the gold table: {few}")
        if self.tables.rows["quarantine"]:
            found.append(f"{self.tables.rows['quarantine']} records are in quarantine")
        found += self.audited.faults()
        if self.audited.messages != self.load.messages:
            found.append(
                f"the audit finds {self.audited.messages} messages of {self.load.messages}"
            )
        return found

    def _repeated(self) -> Iterator[str]:
        """Yield sentences about results that are impossible with exactly once."""
        findings = self.findings
        if findings.over:
            few = ", ".join(
                f"{word!r} by {excess}" for word, excess in _some(findings.over, by_size=True)
            )
            yield f"{len(findings.over)} words are counted more often than they occur: {few}"
        if findings.repeated:
            yield f"{findings.repeated} records are twice in the sink topic"

    def to_json(self) -> dict[str, Any]:
        """Return the report's content. Times are in ms unless the name of the field has another
        unit."""
        complete = [
            quantile(list(self.load.complete_latency_counts), share) for share in (0.5, 0.99)
        ]
        return {
            "guarantee": self.guarantee,
            "messages": self.load.messages,
            "acked": self.load.acked,
            "failed": self.load.failed,
            "replayed": self.replayed,
            "lost": len(self.findings.lost),
            "words_checked": len(self.findings.truth),
            "words_wrong": len(self.wrong) + len(self.findings.foreign),
            "words_over": len(self.findings.over),
            "words_over_by": dict(self.findings.over),
            "sentences_per_s": round(self.load.per_second, 1),
            "sentences_per_s_undisturbed": round(self.load.undisturbed_per_second, 1),
            "p50_ms": self.findings.latency_ms(0.5),
            "p99_ms": self.findings.latency_ms(0.99),
            "complete_p50_ms": _milliseconds(complete[0]),
            "complete_p99_ms": _milliseconds(complete[1]),
            "killed": [kill.worker.name for kill in self.load.kills],
            "back_after_s": [
                kill.back_after and round(kill.back_after, 1) for kill in self.load.kills
            ],
            "sink_records": self.findings.records,
            "sink_records_repeated": self.findings.repeated,
            "bronze_rows": self.tables.rows["bronze"],
            "silver_rows": self.tables.rows["silver"],
            "gold_rows": self.tables.rows["gold"],
            "top": [{"word": row.word, "occurrences": row.occurrences} for row in self.tables.top],
            "cpu_seconds": {name: round(used.cpu_seconds, 1) for name, used in self.usage.items()},
            "peak_rss_mb": {
                name: round(used.peak_rss / 2**20) for name, used in self.usage.items()
            },
            "audit": self.audited.to_json(),
            "took": {stage: round(seconds, 1) for stage, seconds in self.took.items()},
            "took_in_all": round(sum(self.took.values()), 1),
            "load_seconds": round(self.load.seconds, 1),
            "spark_seconds": round(self.tables.seconds, 1),
            "tables": str(self.tables.directory),
            "logs": str(self.directory),
        }


def print_summary(outcome: DemoOutcome, console: Console) -> None:
    """The tables at the end of a run."""
    console.print()
    _print_pairs(outcome, console)
    console.print()
    _print_usage(outcome, console)
    console.print(
        "\nThe ten words that occur most, read from the gold table by Spark:", highlight=False
    )
    for row in outcome.tables.top:
        console.print(f"  {row.occurrences:9,}  {row.word}", highlight=False, markup=False)
    console.print()


def _print_pairs(outcome: DemoOutcome, console: Console) -> None:
    load, findings, tables = outcome.load, outcome.findings, outcome.tables
    table = Table.grid(padding=(0, 2))
    for name, value in {
        "processed": outcome.guarantee.replace("_", " "),
        "messages in": f"{load.messages:,}",
        "trees completed": f"{load.acked:,}",
        "trees failed": f"{load.failed:,}",
        "replayed": f"{outcome.replayed:,}",
        "lost": f"[bold]{len(findings.lost):,}[/bold]",
        "words checked": f"{len(findings.truth):,} different ones, {sum(findings.truth.values()):,} in all",
        "words wrong": f"{len(outcome.wrong):,}",
        "words over": _over(findings),
        "throughput": (
            f"{load.per_second:,.0f} sentences a second over all {load.seconds:.0f} s,"
            f" {load.undisturbed_per_second:,.0f} a second in the first half"
        ),
        "latency": f"{_pair(findings)}: until the sink topic has the last word of a sentence",
        "until acked": f"{_complete(load)}: from the emit of a tree to its completion (within 30 %)",
        "killed": _killed(load) or "nothing",
        "sink topic": f"{findings.records:,} records, {findings.repeated:,} of them repeated",
        "Delta tables": f"{escape(str(tables.directory))} ({', '.join(f'{name} {rows:,}' for name, rows in tables.rows.items())})",
        "audit": escape(str(outcome.audited)),
        "took": _took(outcome.took),
        "logs": escape(str(outcome.directory)),
    }.items():
        table.add_row(f"[dim]{name}[/dim]", value)
    console.print(table, soft_wrap=True, highlight=False)


def _print_usage(outcome: DemoOutcome, console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("process")
    table.add_column("CPU seconds", justify="right")
    table.add_column("memory at most", justify="right")
    for name, used in outcome.usage.items():
        table.add_row(name, f"{used.cpu_seconds:.1f}", f"{used.peak_rss / 2**20:,.0f} MB")
    console.print(table, highlight=False)


def _over(findings: DemoFindings) -> str:
    if not findings.over:
        return "0"
    most = ", ".join(
        f"{escape(word)} +{excess}" for word, excess in _some(findings.over, by_size=True)
    )
    return f"{len(findings.over):,}, by {sum(findings.over.values()):,} in all, because replays count again: {most} …"


def _pair(findings: DemoFindings) -> str:
    return " · ".join(
        f"{name} {'–' if (ms := findings.latency_ms(share)) is None else format_seconds(ms / 1000)}"
        for name, share in (("p50", 0.5), ("p99", 0.99))
    )


def _complete(load: LoadResult) -> str:
    return " · ".join(
        f"{name} {'–' if (found := quantile(list(load.complete_latency_counts), share)) is None else format_seconds(found)}"
        for name, share in (("p50", 0.5), ("p99", 0.99))
    )


def _killed(load: LoadResult) -> str:
    return ", ".join(
        f"{kill.worker.name} (back after {kill.back_after:.1f} s)"
        if kill.back_after is not None
        else kill.worker.name
        for kill in load.kills
    )


def _took(took: Mapping[str, float]) -> str:
    stages = " · ".join(f"{stage} {seconds:.0f} s" for stage, seconds in took.items())
    return f"{stages} = {sum(took.values()):.0f} s"


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _some(words: Mapping[str, int], *, by_size: bool = False) -> list[tuple[str, int]]:
    items = sorted(words.items(), key=lambda item: -item[1]) if by_size else list(words.items())
    return items[:_SHOWN]
