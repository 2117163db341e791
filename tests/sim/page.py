"""Formats the outcome of many schedules for the terminal and for the documentation."""

import platform
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.sim.coverage import all_lines, rarely, source
from tests.sim.guarantees import GUARANTEES
from tests.sim.outcome import SimOutcome

_RARE = 0.01
_MOST_RARE = 15


def print_outcome(outcome: SimOutcome, workers: int, console: Console) -> None:
    """Print tables. Violations come last, where they are noticed."""
    console.print(_summary(outcome, workers))
    console.print(_table(("fault", "times"), _counts(outcome.faults)))
    console.print(_table(("what kstorm met", "times"), _counts(outcome.seen)))
    console.print(_coverage(outcome))
    console.print(_table(("rarely reached", "of traced schedules", ""), _rare(outcome)))
    for violation in outcome.violations:
        console.print(f"[red]violation[/] {violation}", highlight=False)
    if outcome.violations:
        console.print(f"replay one with ./run sim --guarantee {outcome.kind} --seed SEED --trace")


def write_page(outcome: SimOutcome, seeds: Sequence[int], workers: int, path: Path) -> None:
    """Write the same as a section of a Markdown page."""
    machine = f"Python {sys.version.split()[0]} on {platform.machine()}"
    which = (
        f"{outcome.kind.replace('-', ' ')}, seeds {seeds[0]} to {seeds[0] + outcome.schedules - 1}"
    )
    lines = [
        f"{date.today().isoformat()}, {machine}, {which}:",
        "",
        _summary(outcome, workers),
        f"{_coverage(outcome)} **Violations: {len(outcome.violations)}.**",
        "",
        *_markdown(("fault", "times"), _counts(outcome.faults)),
        "",
        *_markdown(("what kstorm met", "times"), _counts(outcome.seen)),
        "",
    ]
    path.write_text("\n".join(lines))


def _summary(outcome: SimOutcome, workers: int) -> str:
    rate = outcome.schedules / outcome.seconds if outcome.seconds else 0.0
    return (
        f"{outcome.schedules:,} schedules in {outcome.seconds:,.0f} s on {workers} processes ({rate:.0f} a second): "
        f"{outcome.messages:,} messages, {outcome.replays:,} replays, {outcome.executions:,} executions, "
        f"{outcome.steps:,} steps among {outcome.faults.total():,} faults."
    )


def _coverage(outcome: SimOutcome) -> str:
    lines = all_lines(GUARANTEES[outcome.kind].modules)
    share = len(lines & outcome.reached.keys()) / len(lines)
    return f"{outcome.traced:,} traced schedules reached {share:.1%} of the protocol's {len(lines):,} lines."


def _counts(counts: Counter[str]) -> list[tuple[str, str]]:
    return [(name, f"{count:,}") for name, count in counts.most_common()]


def _rare(outcome: SimOutcome) -> list[tuple[str, str, str]]:
    rare = rarely(outcome.reached, outcome.traced, _RARE, GUARANTEES[outcome.kind].modules)
    shown = [
        (f"{line[0]}:{line[1]}", f"{count:,} of {outcome.traced:,}", source(line))
        for line, count in rare[:_MOST_RARE]
    ]
    more = len(rare) - len(shown)
    return [*shown, ("…", f"{more} more", "")] if more > 0 else shown


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    return table


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
