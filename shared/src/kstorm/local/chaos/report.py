"""Shows the outcome of a chaos run: a table by fault on the terminal, and the page docs/reliability.md."""

import platform
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
from rich.console import Console
from rich.table import Table

from kstorm.local.chaos.outcome import Outcome, Row
from kstorm.local.jars import KAFKA_VERSION, zookeeper_version


def print_outcome(outcome: Outcome, console: Console) -> None:
    """The table and the goals."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(_HEADER):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in outcome.rows():
        table.add_row(*_cells(row))
    console.print()
    console.print(table, highlight=False)
    console.print()
    for text, met in outcome.goals():
        console.print(f"{'met    ' if met else 'NOT MET'}  {text}", style="green" if met else "red", highlight=False)
    for line in _sums(outcome):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def write_report(outcome: Outcome, path: Path) -> None:
    """The page."""
    path.write_text("\n".join(_page(outcome)) + "\n", encoding="utf-8")


_HEADER: Final = (
    "fault",
    "runs",
    "messages",
    "lost",
    "dupli-\ncated",
    "re-\nplayed",
    "goes on,\np50 s",
    "max s",
    "longest\nstop s",
)

_INTRODUCTION: Final = """\
# What happens when things die

Written by `./run chaos`; do not edit.

Real Kafka, ZooKeeper and RocksDB on one machine, one process per service: a word count with state, and a diamond whose join
anchors to both branches, fed by one `KafkaSpout` at a steady rate. Faults come in random order; the next one begins when
all is as before. Then plain clients read every topic, and what came out is compared with what went in, knowing nothing
of kstorm."""

_COLUMNS: Final = """\
*messages*: that came into the source topic from the fault's beginning until all was as before. *duplicated*: outputs beyond the
one that there should be, by the time at which they were written. *replayed*: trees that failed or timed out. *goes on*:
from the fault's beginning, its own duration included, until every task was with a process that had worked since, and
more trees had been completed than were open at the beginning. *longest stop*: seconds without a completed tree."""


def _cells(row: Row) -> list[str]:
    return [
        row.fault,
        str(row.runs or "–"),
        f"{row.messages:,}",
        f"{row.lost:,}",
        f"{row.duplicated:,}",
        f"{row.replayed:,}" if row.runs else "–",
        f"{statistics.median(row.progress):.1f}" if row.progress else "–",
        f"{max(row.progress):.1f}" if row.progress else "–",
        f"{max(row.stops):.1f}" if row.stops else "–",
    ]


def _sums(outcome: Outcome) -> Iterator[str]:
    found = outcome.findings
    yield (
        f"{len(found.messages):,} messages, {found.outputs:,} outputs, {len(found.duplicates):,} of them duplicates, "
        f"{len(found.corrupted):,} corrupted."
    )
    yield (
        f"{found.letters} of {outcome.poison} bad records are in the dead letters; {len(found.given_up)} good messages are."
    )
    yield (
        f"Last counts below the truth: {len(found.short)} words; above it, since replays count again: by {found.over:,} in all."
    )
    yield (
        f"Offsets in ZooKeeper, looked at {found.samples:,} times: {len(found.ahead)} above an unfinished message; "
        f"{len(found.unfinished)} partitions not at their end at last."
    )
    for name, reason in outcome.skipped.items():
        yield f"Left out: {name}, as {reason}."


def _page(outcome: Outcome) -> Iterator[str]:
    yield from (_INTRODUCTION, "")
    yield from (f"* {line}" for line in _circumstances(outcome))
    yield from ("", "## Goals", "")
    yield from (f"* {'met' if met else '**not met**'}: {text}" for text, met in outcome.goals())
    yield from ("", "## By fault", "")
    names = [name.replace("-\n", "").replace("\n", " ") for name in _HEADER]
    yield from (f"| {' | '.join(names)} |", f"|{'---|' * len(_HEADER)}")
    rows = outcome.rows()
    yield from (f"| {' | '.join(_cells(row))} |" for row in rows)
    yield from ("", _COLUMNS, "")
    yield from (f"* {line}" for line in _sums(outcome))
    if faults := outcome.findings.faults():
        yield from ("", "## Not good", "", *(f"* {fault}" for fault in faults))
    yield from ("", "## The faults", "", *(f"* **{row.fault}**: {row.says}" for row in rows if row.runs))


def _circumstances(outcome: Outcome) -> Iterator[str]:
    options = outcome.options
    yield f"{time.strftime('%Y-%m-%d')}, kstorm {_commit()}, message timeout {options.message_timeout_secs:g} s"
    yield (
        f"Kafka {KAFKA_VERSION}, ZooKeeper {zookeeper_version()}, Python {platform.python_version()}, "
        f"librdkafka {confluent_kafka.libversion()[0]}"
    )
    yield f"seed {options.seed}: `{options.command}`"


def _commit() -> str:
    """The commit of the checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "of no checkout"
