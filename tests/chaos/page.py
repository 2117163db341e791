"""Writes docs/concepts/reliability.md: the results of the last full chaos run with each guarantee.

A run stores its summary next to the page as JSON. The page is generated from all stored summaries,
with the guarantees side by side.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from kstorm.topology.config import GUARANTEES
from tests.chaos.tested_topology import ALL_STREAMS, WORD_COUNT

_INTRODUCTION: Final = """\
# Faults on real servers

Written by `./run chaos`; do not edit.

These tests run real Kafka, ZooKeeper and RocksDB on one machine, with one process per service. The
topology has a stateful word count and a diamond whose join anchors to both branches. One
`KafkaSpout` feeds both at a steady rate. With streams (`--topology all`), the branches are Trident's
word count, sliding windows, a `JoinBolt` within such a window, and Trident's join over all past
tuples. The windows are of event time, of tuples and of sums.

Faults occur in random order. The next one starts when the topology has recovered. At the end, plain
Kafka clients without kstorm read every topic and compare the output with the input."""

_COLUMNS: Final = """\
* *messages*: messages written to the source topic from the start of the fault until the topology
  had recovered.
* *duplicated*: outputs beyond the expected one, by the time when they were written.
* *replayed*: trees that failed or timed out.
* *works again*: the longest time from the start of the fault, its own duration included, until two
  conditions held. Every task was in a process that had worked since, and more trees had been
  completed than were open at the start.
* *longest stop*: seconds without a completed tree.
* *worst message*: the most seconds from a message to the last of its outputs, for messages under
  way during the fault. A stuck task shows here even if others complete trees."""

_SIDE_BY_SIDE: Final = ("lost", "duplicated", "longest stop s", "worst message s")


@dataclass(frozen=True, slots=True)
class Summary:
    """The page's content about one run, all as text."""

    guarantee: str
    circumstances: list[str]
    goals: list[str]
    header: list[str]
    """The names of the columns, the fault's first."""
    cells: list[list[str]]
    """The table, a list for each fault."""
    sums: list[str]
    wrong: list[str]
    """Faults, a sentence each."""
    faults: dict[str, str]
    """The descriptions of the faults."""
    topology: str = WORD_COUNT
    """The topology under test."""

    @property
    def place(self) -> str:
        """The name under which it is stored."""
        return self.guarantee if self.topology == WORD_COUNT else "streams"


def write_page(summary: Summary, page: Path) -> None:
    """Write a page about this run alone."""
    _write([summary], page)


def renew_page(summary: Summary, page: Path) -> None:
    """Replace the stored run of this guarantee, or of streams, and generate the page from all."""
    kept = page.with_suffix("")
    kept.mkdir(exist_ok=True)
    place = kept / f"{summary.place}.json"
    place.write_text(
        json.dumps(asdict(summary), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    places = [kept / f"{guarantee}.json" for guarantee in (*GUARANTEES, "streams")]
    _write(
        [
            Summary(**json.loads(each.read_text(encoding="utf-8")))
            for each in places
            if each.exists()
        ],
        page,
    )


def _write(summaries: Sequence[Summary], page: Path) -> None:
    page.write_text("\n".join(_lines(summaries)) + "\n", encoding="utf-8")


def _lines(summaries: Sequence[Summary]) -> Iterator[str]:
    yield from (_INTRODUCTION, "")
    counted = [summary for summary in summaries if summary.topology == WORD_COUNT]
    if len(counted) > 1:
        yield from ("## Side by side", "", *_side_by_side(counted), "")
    for summary in summaries:
        yield from (
            f"## {_named(summary)}",
            "",
            *(f"* {line}" for line in summary.circumstances),
            "",
        )
        yield from (*(f"* {goal}" for goal in summary.goals), "")
        yield from (*_table(summary.header, summary.cells), "")
        yield from (f"* {line}" for line in summary.sums)
        if summary.wrong:
            yield from ("", "### What is wrong", "", *(f"* {fault}" for fault in summary.wrong))
        yield ""
    yield from ("## The columns", "", _COLUMNS, "", "## The faults", "")
    says = {name: text for summary in summaries for name, text in summary.faults.items()}
    yield from (f"* **{name}**: {text}" for name, text in says.items())


def _side_by_side(summaries: Sequence[Summary]) -> Iterator[str]:
    """Return the columns that differ most between guarantees, for faults that all runs had."""
    tables = [
        {row[0]: dict(zip(summary.header, row, strict=True)) for row in summary.cells}
        for summary in summaries
    ]
    columns = [
        column for column in _SIDE_BY_SIDE if all(column in summary.header for summary in summaries)
    ]
    header = [f"{column}, {_named(summary).lower()}" for column in columns for summary in summaries]
    both = [name for name in tables[0] if all(name in table for table in tables)]
    rows = [
        [name, *(table[name][column] for column in columns for table in tables)] for name in both
    ]
    yield from _table(["fault", *header], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from (f"| {' | '.join(header)} |", f"|{'---|' * len(header)}")
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _named(summary: Summary) -> str:
    kept = summary.guarantee.replace("_", " ")
    if summary.topology == WORD_COUNT:
        return kept.capitalize()
    streams = "Streams" if summary.topology == ALL_STREAMS else f"Streams ({summary.topology})"
    return f"{streams}, {kept}"
