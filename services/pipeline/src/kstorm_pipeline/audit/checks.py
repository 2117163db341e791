"""Levels 0 to 2 of an audit: faults, and findings worth knowing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.audit.coverage import Intervals
from kstorm_pipeline.audit.findings import Finding
from kstorm_pipeline.audit.message_outcomes import DONE
from kstorm_pipeline.audit.ranges import SpoutReading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from kstorm_pipeline.audit.coverage import FinishedRange
    from kstorm_pipeline.audit.findings import Tally
    from kstorm_pipeline.audit.message_outcomes import OutcomeCount, OutcomeJudge

_SHOWN = 1000
"""The most messages of a kind that are listed. Their count is always exact."""
_CERTAIN = ("acked", "empty", "dead")
"""Outcomes of offsets that had a message when the range was written."""

Letters = dict[tuple[str, int], Intervals]
"""The offsets of dead letters, by topic and partition."""


def cover(judges: Mapping[SpoutReading, OutcomeJudge]) -> Iterator[Finding]:
    """Level 0: report offsets that are due but in no range.

    kstorm itself never causes them, but another tool that stores an offset can.
    """
    for reading, judge in judges.items():
        for first, end in judge.account.gaps(judge.window.first, judge.window.bound, judge.stored):
            note = "" if judge.stored is None else f"the stored offset is {judge.stored}"
            yield Finding(0, "gap", True, reading, first, end, note)
        for each in judge.account.skipped:
            first, end = max(each.start, judge.window.first), min(each.end, judge.window.bound)
            if first < end:
                who = f" (by {each.who})" if each.who else ""
                yield Finding(0, "skipped", False, reading, first, end, each.why + who)


def population(
    judges: Mapping[SpoutReading, OutcomeJudge], counts: Iterable[OutcomeCount]
) -> Iterator[Finding]:
    """Level 1: report ranges that claim more offsets without a message than there are."""
    there: Counter[tuple[SpoutReading, int]] = Counter()
    for each in counts:
        there[each.reading, each.place] += each.messages
    for reading, judge in judges.items():
        fewer: list[tuple[FinishedRange, int]] = []
        for place, said in enumerate(judge.chain):
            found, absent = there[reading, place], said.counts.get("absent", 0)
            if found > said.end - said.start - absent:
                note = f"{found} messages exist, but the range has {absent} offsets without one"
                yield Finding(
                    1, "a message was passed over", True, reading, said.start, said.end, note
                )
            gone = sum(said.counts.get(outcome, 0) for outcome in _CERTAIN) - found
            if gone > 0:
                fewer.append((said, gone))
        if fewer:
            note = (
                f"{sum(gone for _, gone in fewer)} of them: "
                "the topic was compacted, or deletes records"
            )
            yield Finding(
                1, "messages are gone", False, reading, fewer[0][0].start, fewer[-1][0].end, note
            )


def dead(judges: Mapping[SpoutReading, OutcomeJudge], letters: Letters) -> Iterator[Finding]:
    """Level 2: report messages that a range claims are dead letters, but that have none."""
    for reading, judge in judges.items():
        there = letters.get((reading.topic, reading.partition), Intervals())
        for run in judge.account.dead.within(judge.window.first, judge.window.end):
            for first, end in there.missing(*run):
                yield Finding(2, "no dead letter", True, reading, first, end)


def except_tuples(
    judged: DataFrame, lost: DataFrame | None, tallies: Iterable[Tally]
) -> Iterator[Finding]:
    """Level 2: report done messages that have a tuple among the dead letters, and count them.

    `lost` is the result of `lost_tuples`.
    """
    if lost is None:
        return
    letters = lost.groupBy("topic", "partition", "offset").agg(
        sf.sort_array(sf.collect_set(sf.struct("letter", "why"))).alias("letters")
    )
    rows = judged.where(sf.col("outcome") == DONE).join(letters, ["topic", "partition", "offset"])
    found = rows.select("node", "topic", "partition", "offset", "letters").collect()
    counts = Counter(SpoutReading(*row[:3]) for row in found)
    for tally in tallies:
        tally.except_tuples = counts[tally.reading]
    for row in sorted(found)[:_SHOWN]:
        note = ", ".join(f"dead letter {letter} ({why})" for letter, why in row.letters)
        yield Finding(
            2, "done, except for a tuple", False, SpoutReading(*row[:3]), row[3], row[3] + 1, note
        )
