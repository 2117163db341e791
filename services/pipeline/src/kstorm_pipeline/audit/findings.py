"""The findings of an audit, and the tables that store them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kstorm_pipeline.ddl import columns_of

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from kstorm_pipeline.audit.ranges import SpoutReading
    from kstorm_pipeline.tables import Tables

WINDOWS, EXCEPTIONS = "audit_windows", "audit_exceptions"
COMPLETE = "_audit"
"""The folder next to the tables with one file per topology: up to when all messages are accounted
for, in seconds since 1970."""

_WINDOWS = """
    checked TIMESTAMP COMMENT 'time of the audit, the same in all of its rows',
    topology STRING,
    node STRING COMMENT 'ZooKeeper node of the reading',
    topic STRING,
    partition INT,
    first BIGINT COMMENT 'first offset of the window that has a message',
    `end` BIGINT COMMENT 'last such offset plus one',
    stored BIGINT COMMENT 'offset stored in ZooKeeper; null if it was not read',
    messages BIGINT COMMENT 'number of messages',
    done BIGINT COMMENT 'acked, committed or claimed',
    dead BIGINT,
    empty BIGINT,
    skipped BIGINT,
    not_due BIGINT,
    gap BIGINT,
    outputs BIGINT COMMENT 'records of silver made from these messages; null without silver',
    without_output BIGINT COMMENT 'number of done messages without such a record',
    findings BIGINT COMMENT 'number of exceptions that are faults',
    except_tuples BIGINT COMMENT 'number of done messages one of whose tuples is a dead letter'
"""
_EXCEPTIONS = """
    checked TIMESTAMP,
    topology STRING,
    level INT COMMENT '0 cover, 1 population, 2 dead, 3 output, 4 proof',
    what STRING,
    fault BOOLEAN COMMENT 'true for a fault, false for a finding worth knowing',
    node STRING,
    topic STRING,
    partition INT,
    first BIGINT COMMENT 'first offset',
    `end` BIGINT COMMENT 'last offset plus one',
    note STRING
"""


class Finding(NamedTuple):
    """Offsets of one partition that the audit reports."""

    level: int
    what: str
    fault: bool
    reading: SpoutReading
    first: int
    end: int
    note: str = ""

    def __str__(self) -> str:
        span = str(self.first) if self.end == self.first + 1 else f"{self.first} to {self.end - 1}"
        note = f": {self.note}" if self.note else ""
        node = f" ({self.reading.node})" if self.reading.node else ""
        return f"{self.what}: {self.reading.topic}[{self.reading.partition}] {span}{node}{note}"


@dataclass(slots=True)
class Tally:
    """The counts for one partition of one reading."""

    reading: SpoutReading
    first: int
    end: int
    stored: int | None
    messages: int
    outcomes: dict[str, int] = field(default_factory=dict)
    outputs: int | None = None
    without_output: int | None = None
    findings: int = 0
    except_tuples: int = 0

    def row(self) -> dict[str, Any]:
        """Return a row of `audit_windows`."""
        counts = {name.replace(" ", "_"): count for name, count in self.outcomes.items()}
        plain = {
            name: value
            for name, value in asdict(self).items()
            if name not in ("reading", "outcomes")
        }
        zeros = dict.fromkeys(("done", "dead", "empty", "skipped", "not_due", "gap"), 0)
        return {**self.reading._asdict(), **plain, **zeros, **counts}


def write_findings(
    spark: SparkSession,
    tables: Tables,
    topology: str,
    checked: datetime,
    tallies: list[Tally],
    findings: list[Finding],
) -> None:
    """Append the findings to the tables, which are created if they don't exist."""
    same = {"checked": checked, "topology": topology}
    windows = [{**same, **tally.row()} for tally in tallies]
    exceptions = [
        {
            **same,
            **{name: value for name, value in each._asdict().items() if name != "reading"},
            **each.reading._asdict(),
        }
        for each in findings
    ]
    for name, ddl, rows in ((WINDOWS, _WINDOWS, windows), (EXCEPTIONS, _EXCEPTIONS, exceptions)):
        schema = columns_of(ddl)
        tables.create(spark, {name: schema})
        if rows:
            frame = spark.createDataFrame(
                [tuple(row[column] for column in schema.names) for row in rows], schema
            )
            # Tables of earlier releases lack the newest columns.
            appended = frame.write.format("delta").mode("append").option("mergeSchema", "true")
            appended.save(tables.path(name))
