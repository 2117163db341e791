"""The result of a chaos run by fault, and whether it meets the goals."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter
from typing import Final, NamedTuple

from kstorm.dev.pipeline_audit import NOTHING, AuditedTable
from tests.chaos.findings import ChaosFindings
from tests.chaos.options import FAULTS, ChaosOptions, faults_of

BETWEEN: Final = "between faults"
_RESUME_SECS: Final = 10.0
_SLACK_MS: Final = 2000
_BOLTS: Final = ("kill-split", "kill-count", "kill-window", "kill-join", "kill-sink")


class Goal(NamedTuple):
    text: str
    met: bool


@dataclass(slots=True)
class Episode:
    """One occurrence of a fault."""

    fault: str
    says: str
    begin: int
    """In ms since 1970."""
    end: int = 0
    """When everything had recovered, in ms since 1970."""
    progress_secs: float | None = None
    """Seconds until work continued.

    Every task was then with a process that had worked since, and more trees had been completed than
    were open.
    """
    longest_stop: float = 0.0
    """The most seconds without a completed tree."""
    replayed: int = 0
    """Trees that failed or timed out."""
    starts: int = 0
    """Number of process starts."""


@dataclass(slots=True)
class Row:
    """Totals of all episodes of one fault."""

    fault: str
    says: str
    runs: int = 0
    messages: int = 0
    lost: int = 0
    duplicated: int = 0
    finished_before: int = 0
    """Duplicates whose messages had all outputs for some time when the fault began."""
    replayed: int = 0
    progress: list[float] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)
    worst: float | None = None
    """The most seconds from a message in flight during an episode to its last output, or None."""


@dataclass(frozen=True, slots=True)
class ChaosOutcome:
    """The events of one run, and the audit's findings."""

    options: ChaosOptions
    findings: ChaosFindings
    episodes: Sequence[Episode]
    skipped: Mapping[str, str]
    """Faults that are impossible here, with the reasons."""
    poison: int
    """Number of unprocessable records that were posted."""
    audited: AuditedTable = NOTHING
    """The outcome of every message by the spouts' reports."""

    @property
    def whole(self) -> bool:
        """True if every possible fault happened, or the user named a report file."""
        happened = {episode.fault for episode in self.episodes}
        return self.options.report_asked or happened | set(self.skipped) >= {
            fault.name for fault in faults_of(self.options.subject)
        }

    def rows(self) -> list[Row]:
        """Return the totals by fault in the order of `FAULTS`, then those between faults."""
        rows = {fault.name: Row(fault.name, fault.says) for fault in FAULTS}
        between = rows[BETWEEN] = Row(BETWEEN, "nothing is broken")
        for episode in self.episodes:
            row = rows[episode.fault]
            row.runs += 1
            row.replayed += episode.replayed
            row.stops.append(episode.longest_stop)
            if episode.progress_secs is not None:
                row.progress.append(episode.progress_secs)
        for came, finished in self.findings.spans:
            for row in self._rows_during(rows, came, finished) or [between]:
                row.worst = max((finished - came) / 1000, row.worst or 0.0)
        begins = [episode.begin for episode in self.episodes]
        ends = [episode.end for episode in self.episodes]

        def under_way(at: int) -> Episode | None:
            number = bisect_right(begins, at) - 1
            return (
                self.episodes[number] if number >= 0 and at <= self.episodes[number].end else None
            )

        def row_of(at: int) -> Row:
            episode = under_way(at)
            return between if episode is None else rows[episode.fault]

        for at in self.findings.messages:
            row_of(at).messages += 1
        for lost in self.findings.lost:
            # A message that arrived between two faults was in flight when the second began.
            number = bisect_left(ends, lost.timestamp)
            row = rows[self.episodes[number].fault] if number < len(self.episodes) else between
            row.lost += 1
        for copy in self.findings.duplicates:
            row, during = row_of(copy.at), under_way(copy.at)
            row.duplicated += 1
            row.finished_before += during is not None and copy.finished < during.begin - _SLACK_MS
        return [row for row in rows.values() if row.runs or row is between]

    def _rows_during(self, rows: Mapping[str, Row], came: int, finished: int) -> list[Row]:
        """Return the rows of the faults during which a message was in flight."""
        first = bisect_left(self.episodes, came, key=attrgetter("end"))
        during = takewhile(lambda episode: episode.begin <= finished, self.episodes[first:])
        return [rows[episode.fault] for episode in during]

    def faults(self) -> list[str]:
        """Return a sentence for each fault, with exactly-once processing also for duplicates."""
        return [
            *self.findings.faults(),
            *self.audited.faults(),
            *(goal.text for goal in self._once() if not goal.met),
        ]

    def _once(self) -> list[Goal]:
        """Return the additional goals of exactly-once processing."""
        if not self.options.exactly_once:
            return []
        found = self.findings
        return [
            Goal(
                f"duplicated: {len(found.duplicates)} of {found.outputs:,} outputs",
                not found.duplicates,
            ),
            Goal(f"counts too high: by {found.over:,} in total", not found.over),
        ]

    def goals(self) -> list[Goal]:
        """Return the goals that apply to the faults that happened."""
        rows = {row.fault: row for row in self.rows()}
        lost, of = len(self.findings.lost), len(self.findings.messages)
        gaps = self.audited.gaps
        goals = [
            Goal(f"lost: {lost} of {of:,} messages", not lost),
            Goal(f"gaps in the spouts' finished ranges: {gaps}", not gaps),
            *self._once(),
        ]
        if acker := rows.get("kill-acker"):
            slowest = max(acker.progress, default=0.0)
            goals += [
                Goal(
                    f"SIGKILL of an acker replays nothing: {acker.replayed} trees replayed, {acker.duplicated} outputs duplicated",
                    not acker.replayed and not acker.duplicated,
                ),
                Goal(
                    f"after SIGKILL of an acker, everything works again within {_RESUME_SECS:.0f} s: at most {slowest:.1f} s",
                    slowest <= _RESUME_SECS,
                ),
            ]
        outages = [episode for episode in self.episodes if episode.fault == "broker-outage"]
        if outages:
            starts = sum(episode.starts for episode in outages)
            goals.append(Goal(f"processes restarted by an outage of Kafka: {starts}", not starts))
        bolts = [rows[name] for name in _BOLTS if name in rows]
        if bolts:
            needless = sum(row.finished_before for row in bolts)
            text = f"SIGKILL of a bolt replays only its messages in flight: {needless} outputs were repeated for messages"
            goals.append(
                Goal(f"{text} that were finished {_SLACK_MS / 1000:.0f} s before", not needless)
            )
        return goals
