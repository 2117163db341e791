"""Prints the result of a chaos run as a table by fault, and summarizes it for `page`."""

import platform
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
from rich.console import Console
from rich.table import Table

from kstorm.dev.jars import KAFKA_VERSION, ZOOKEEPER_VERSION
from tests.chaos.outcome import ChaosOutcome, Row
from tests.chaos.page import Summary

HEADER: Final = (
    "fault",
    "runs",
    "messages",
    "lost",
    "dupli-\ncated",
    "re-\nplayed",
    "works\nagain s",
    "longest\nstop s",
    "worst\nmessage s",
)


def print_outcome(outcome: ChaosOutcome, console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(HEADER):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in outcome.rows():
        table.add_row(*_cells(row))
    console.print()
    console.print(table, highlight=False)
    console.print()
    for text, met in outcome.goals():
        console.print(
            f"{'met    ' if met else 'NOT MET'}  {text}",
            style="green" if met else "red",
            highlight=False,
        )
    for line in _sums(outcome):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def sum_up(outcome: ChaosOutcome) -> Summary:
    """Return the page's content about a run."""
    rows = outcome.rows()
    return Summary(
        outcome.options.guarantee,
        list(_circumstances(outcome)),
        [f"{'met' if met else '**not met**'}: {text}" for text, met in outcome.goals()],
        [name.replace("-\n", "").replace("\n", " ") for name in HEADER],
        [_cells(row) for row in rows],
        list(_sums(outcome)),
        outcome.faults(),
        {row.fault: row.says for row in rows if row.runs},
        outcome.options.topology,
    )


def _cells(row: Row) -> list[str]:
    return [
        row.fault,
        str(row.runs or "–"),
        f"{row.messages:,}",
        f"{row.lost:,}",
        f"{row.duplicated:,}",
        f"{row.replayed:,}" if row.runs else "–",
        f"{max(row.progress):.1f}" if row.progress else "–",
        f"{max(row.stops):.1f}" if row.stops else "–",
        "–" if row.worst is None else f"{row.worst:.1f}",
    ]


def _sums(outcome: ChaosOutcome) -> Iterator[str]:
    found = outcome.findings
    yield (
        f"{len(found.messages):,} messages, {found.outputs:,} outputs, {len(found.duplicates):,} of them duplicates, "
        f"{len(found.corrupted):,} corrupted."
    )
    yield (
        f"{found.letters} of {outcome.poison} bad records and {len(found.given_up)} good messages are in the dead letters."
    )
    why = "" if outcome.options.exactly_once else ", because replays count again"
    if outcome.options.subject.once_only:
        yield f"Late tuples, each reported once and counted in no window: {found.late:,}."
    yield f"Final counts: too low for {len(found.short)} words; too high by {found.over:,} in total{why}."
    yield (
        f"Offsets in ZooKeeper, checked {found.samples:,} times: {len(found.ahead)} too high; "
        f"{len(found.unfinished)} partitions unfinished at the end."
    )
    yield f"Audit: {outcome.audited}."
    for name, reason in outcome.skipped.items():
        yield f"Left out: {name}, as {reason}."


def _circumstances(outcome: ChaosOutcome) -> Iterator[str]:
    options = outcome.options
    kept = options.guarantee.replace("_", " ")
    yield f"{time.strftime('%Y-%m-%d')}, kstorm {_commit()}, {kept}, message timeout {options.message_timeout_secs:g} s"
    yield (
        f"Kafka {KAFKA_VERSION}, ZooKeeper {ZOOKEEPER_VERSION}, Python {platform.python_version()}, "
        f"librdkafka {confluent_kafka.libversion()[0]}"
    )
    yield f"seed {options.seed}: `{options.command}`"


def _commit() -> str:
    command = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--dirty",
        "--exclude=*",
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "of no checkout"
