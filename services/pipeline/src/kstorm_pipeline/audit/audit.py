"""`kstorm-pipeline audit`: runs all levels and makes one report."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kstorm_pipeline.audit import checks, output_check
from kstorm_pipeline.audit.coverage import CoverageAccount
from kstorm_pipeline.audit.findings import COMPLETE, Finding, Tally, write_findings
from kstorm_pipeline.audit.kafka import persisted
from kstorm_pipeline.audit.letters import letter_offsets, lost_tuples, read_letters
from kstorm_pipeline.audit.message_outcomes import (
    GAP,
    NOT_DUE,
    OutcomeCount,
    OutcomeJudge,
    judge_messages,
    sum_up,
)
from kstorm_pipeline.audit.proof import AckerProof, prove
from kstorm_pipeline.audit.ranges import SpoutReading, accounts, readings
from kstorm_pipeline.audit.stored_offsets import stored_offsets
from kstorm_pipeline.audit.window import AuditWindow, Times, source_messages, windows
from kstorm_pipeline.storage import write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)

_SHOWN = 20
"""Most findings to log. The table has all of them."""


@dataclass(slots=True)
class AuditOutcome:
    """The result of an audit."""

    topology: str
    checked: datetime
    times: Times
    tallies: list[Tally] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    complete_until: datetime | None = None
    """All messages with an earlier timestamp are accounted for."""
    proof: AckerProof | None = None
    """None if the topology has no ackers."""

    @property
    def faults(self) -> list[Finding]:
        """The findings that must not occur."""
        return [each for each in self.findings if each.fault]

    def summary(self) -> dict[str, Any]:
        """Return the result in JSON types."""
        total = Counter[str]()
        for tally in self.tallies:
            total.update(tally.outcomes)
        made = [tally.outputs for tally in self.tallies if tally.outputs is not None]
        trees = (
            None if self.proof is None else {"said": self.proof.said, "closed": self.proof.closed}
        )
        return {
            "topology": self.topology,
            "from": _text(self.times.since),
            "to": _text(self.times.until),
            "messages": sum(tally.messages for tally in self.tallies),
            "outcomes": dict(total),
            "except_tuples": sum(tally.except_tuples for tally in self.tallies),
            "outputs": sum(made) if made else None,
            "trees": trees,
            "gaps": sum(each.end - each.first for each in self.findings if each.what == "gap"),
            "faults": [str(each) for each in self.faults],
            "complete_until": _text(self.complete_until),
        }


def audit(
    spark: SparkSession, settings: Settings, tables: Tables, times: Times, expect: int
) -> AuditOutcome:
    """Account for all messages of a window, write the findings to the tables, and return them.

    Raises PipelineError if the topology's topics do not exist or ZooKeeper does not answer.
    """
    outcome = AuditOutcome(settings.topology, datetime.now(UTC), times)
    known = readings(spark, settings)
    if known:
        _check(spark, settings, tables, known, outcome, expect)
    else:
        outcome.complete_until = outcome.checked
    outcome.proof = prove(spark, settings)
    if outcome.proof is not None:
        outcome.findings += outcome.proof.findings
    for each in outcome.findings[:_SHOWN]:
        logger.log(logging.WARNING if each.fault else logging.INFO, "audit: %s", each)
    for tally in outcome.tallies:
        tally.findings = sum(each.reading == tally.reading for each in outcome.faults)
    write_findings(
        spark, tables, settings.topology, outcome.checked, outcome.tallies, outcome.findings
    )
    # An audit of a past window does not cover the present.
    if outcome.complete_until is not None and times.until is None:
        place = f"{tables.path(COMPLETE)}/{settings.topology}"
        write_text(spark, place, str(outcome.complete_until.timestamp()))
    return outcome


def _check(
    spark: SparkSession,
    settings: Settings,
    tables: Tables,
    known: list[SpoutReading],
    outcome: AuditOutcome,
    expect: int,
) -> None:
    topics = sorted({each.topic for each in known})
    with persisted(source_messages(spark, settings, topics, outcome.times)) as messages:
        of = {(each.topic, each.partition): each for each in windows(messages, outcome.times)}
        every = _all_readings(known, of)
        # Read the stored offsets before the ranges: each offset stored now is in a range by then.
        stored = (
            stored_offsets(settings.zookeeper, every, settings.zookeeper_tls)
            if settings.zookeeper
            else {}
        )
        said = accounts(spark, settings, of.values())
        judges = {
            each: OutcomeJudge(
                of[each.topic, each.partition], said.get(each, CoverageAccount()), stored.get(each)
            )
            for each in every
        }
        logger.info(
            "audit: %d partitions, %d messages",
            len(judges),
            sum(each.messages for each in of.values()),
        )
        with (
            persisted(judge_messages(spark, messages, judges)) as judged,
            persisted(read_letters(spark, settings)) as letters,
        ):
            counts = sum_up(judged)
            outcome.tallies = _tallies(judges, counts)
            outcome.complete_until = _complete_until(counts, outcome)
            outcome.findings += checks.cover(judges)
            outcome.findings += checks.population(judges, counts)
            outcome.findings += checks.dead(judges, letter_offsets(letters, of.values()))
            outcome.findings += checks.except_tuples(
                judged, lost_tuples(spark, settings, letters, of.values()), outcome.tallies
            )
            if tables.exists(spark, "silver"):
                made = output_check.made_of(tables.read(spark, "silver"), of.values())
                outcome.findings += output_check.check_outputs(
                    judged, made, outcome.tallies, expect
                )


def _all_readings(
    known: list[SpoutReading], of: Mapping[tuple[str, int], AuditWindow]
) -> list[SpoutReading]:
    """Return each reading of a topic for each partition that has messages.

    In a partition that a reading has no range for, all offsets are gaps or not due.
    """
    nodes = {(each.node, each.topic) for each in known}
    return [
        SpoutReading(node, topic, partition)
        for topic, partition in of
        for node, read in sorted(nodes)
        if read == topic
    ]


def _tallies(
    judges: Mapping[SpoutReading, OutcomeJudge], counts: Iterable[OutcomeCount]
) -> list[Tally]:
    tallies = {
        reading: Tally(
            reading, judge.window.first, judge.window.end, judge.stored, judge.window.messages
        )
        for reading, judge in judges.items()
    }
    for each in counts:
        outcomes = tallies[each.reading].outcomes
        outcomes[each.outcome] = outcomes.get(each.outcome, 0) + each.messages
    return list(tallies.values())


def _complete_until(counts: Iterable[OutcomeCount], outcome: AuditOutcome) -> datetime | None:
    first = min((each.first for each in counts if each.outcome in (GAP, NOT_DUE)), default=None)
    if first is not None:
        return datetime.fromtimestamp(first / 1000, UTC)
    return outcome.times.until or outcome.checked


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
