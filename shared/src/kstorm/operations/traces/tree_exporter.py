"""Send failed, timed-out and slow trees to a collector within limits: `kstorm export-traces`.

Kafka is the buffer: trees that cannot be sent yet are not read yet. So an unreachable collector
does not cost memory. Trees are lost only if Kafka deletes their frames, or if they exceed the age
limit.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from kstorm.errors import BrokerError, ControlError
from kstorm.introspection.outline import Outline
from kstorm.operations.formatting import counted, duration, utc_clock
from kstorm.operations.traces.otlp import ExportedTree, SpanCollector, spans_of
from kstorm.operations.traces.outcome_feed import FeedPosition, OutcomeFeed
from kstorm.operations.traces.topic_log import ReadBudget, TopicLog
from kstorm.operations.traces.traceparents import traceparent_of
from kstorm.operations.traces.tree_batches import read_trees
from kstorm.operations.trees.outcomes import FAILED, SLOW, TIMED_OUT, OutcomeTracker, TreeOutcome

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_log: Final = logging.getLogger(__name__)
_MINUTE_MS: Final = 60_000
_LONGEST_WAIT_SECS: Final = 60.0
_MOST_SPANS: Final = 1_000
"""Limit per request, unless a single tree has more."""
_STORE_MS: Final = 5_000
"""Interval between two stored positions."""


@dataclass(frozen=True, slots=True)
class ExportLimits:
    trees: float = 100
    """Trees to send per minute of the topology's time."""
    mb: float = 512
    """Megabytes to read for these trees per such minute."""
    lag_ms: float = 15 * _MINUTE_MS
    """Trees that ended longer ago are dropped."""
    patience: float = float("inf")
    """Seconds to wait for an unreachable collector."""


class _Allowance:
    """An allowance per minute. An unused allowance carries over, up to that of one minute."""

    def __init__(self, per_minute: float) -> None:
        self._most = self.left = per_minute

    def grow(self, ms: int) -> None:
        self.left = min(self._most, self.left + self._most * ms / _MINUTE_MS)


@dataclass(slots=True)
class ExportTally:
    """Counters since the last report."""

    sent: Counter[str] = field(default_factory=Counter)
    """Trees by outcome."""
    spans: int = 0
    over: int = 0
    """Trees dropped because there were too many in a minute."""
    late: int = 0
    """Trees dropped because they exceeded the age limit."""
    refused: int = 0
    """Trees that a reachable collector rejected."""
    cut: int = 0
    """Trees that were sent incomplete, because not all of their records were read."""
    unread: int = 0
    """Trees that were not sent, because not even their beginning was read."""

    def __bool__(self) -> bool:
        return bool(self.sent or self.over or self.late or self.refused or self.unread)


class TreeExporter:
    """Exports the trees of one topology.

    `marks` stores the progress. `sleep` and `now` (Unix time in seconds) are replaced in tests.
    """

    def __init__(
        self,
        topology: Outline,
        log: TopicLog,
        tail: OutcomeFeed,
        outcomes: OutcomeTracker,
        collector: SpanCollector,
        limits: ExportLimits,
        marks: FeedPosition | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._topology, self._log, self.tail, self._outcomes = topology, log, tail, outcomes
        self._collector, self._limits, self._marks = collector, limits, marks
        self._sleep, self._now = sleep, now
        self._trees, self._mb = _Allowance(limits.trees), _Allowance(limits.mb)
        self._wanted: Sequence[TreeOutcome] = ()
        self._stored = 0
        self.tally = ExportTally()

    def step(self, until: int) -> None:
        """Continue towards a Unix time in ms.

        Raises `BrokerError` if Kafka does not respond. Then nothing is lost, and the call may be
        repeated. Raises `ControlError` if the collector is unreachable for too long.
        """
        if not self._wanted:
            before = self.tail.until
            found = self.tail.advance(until)
            for allowance in (self._trees, self._mb):
                allowance.grow(self.tail.until - before)
            self._wanted = self._allowed(found)
        if self._wanted:
            self._send(self._read(self._wanted))
            self._wanted = ()
        if self._marks is not None and abs(self.tail.until - self._stored) >= _STORE_MS:
            self._marks.store(self.tail.positions, self.tail.until)
            self._stored = self.tail.until

    def report(self) -> str:
        """Describe the work since the last report."""
        tally, self.tally = self.tally, ExportTally()
        kinds = ", ".join(
            f"{tally.sent[kind]} {kind}" for kind in (FAILED, TIMED_OUT, SLOW) if tally.sent[kind]
        )
        spans = f" ({kinds}; {counted(tally.spans, 'span')})" if kinds else ""
        sent = f"{counted(tally.sent.total(), 'tree')} sent{spans}"
        limits = self._limits
        left_out = (
            (tally.over, f"left out (more than {limits.trees:g} per minute)"),
            (tally.late, f"left out (older than {duration(limits.lag_ms)})"),
            (tally.refused, "refused by the collector"),
            (tally.cut, f"sent incomplete (more than {limits.mb:g} MB per minute)"),
            (tally.unread, f"left out (not found, or more than {limits.mb:g} MB per minute)"),
            (self._outcomes.unknown, "failed and left out (beginning not seen)"),
            (self._outcomes.forgotten, "dropped (too many open at once)"),
        )
        self._outcomes.unknown = self._outcomes.forgotten = 0
        said = [f"{number:,} {what}" for number, what in left_out if number]
        return (
            f"{self._topology.name} until {utc_clock(self.tail.until)}: {'; '.join([sent, *said])}"
        )

    def wait(self, tries: int, why: str) -> None:
        """Pause before another attempt."""
        pause(tries, why, self._sleep)

    def _allowed(self, found: Sequence[TreeOutcome]) -> Sequence[TreeOutcome]:
        if self._now() * 1000 - self.tail.until > self._limits.lag_ms:
            self.tally.late += len(found)
            return ()
        allowed = found[: int(self._trees.left)]
        self._trees.left -= len(allowed)
        self.tally.over += len(found) - len(allowed)
        return allowed

    def _read(self, wanted: Sequence[TreeOutcome]) -> Iterator[ExportedTree]:
        self._log.look_again()
        self._log.budget = budget = ReadBudget(int(self._mb.left * 1e6), float("inf"))
        try:
            for outcome, tree, whole in read_trees(self._topology, self._log, wanted):
                if not tree.proof.begun:
                    self.tally.unread += 1
                    continue
                self.tally.cut += not whole
                yield ExportedTree(tree, outcome.kind, outcome.ended, whole)
        finally:
            self._mb.left = max(0.0, self._mb.left - budget.read / 1e6)

    def _send(self, cases: Iterator[ExportedTree]) -> None:
        parent_of = partial(traceparent_of, self._log)
        batch: list[tuple[str, Sequence[ReadableSpan]]] = []
        for case in list(cases):
            batch.append((case.why, list(spans_of(case, self._topology, parent_of))))
            if sum(len(spans) for _, spans in batch) >= _MOST_SPANS:
                self._deliver(batch)
                batch = []
        self._deliver(batch)

    def _deliver(self, batch: "Sequence[tuple[str, Sequence[ReadableSpan]]]") -> None:
        """Send all trees at once, or one by one if a reachable collector rejects some of them."""
        if not batch:
            return
        if self._taken([span for _, spans in batch for span in spans]):
            self.tally.sent.update(kind for kind, _ in batch)
            self.tally.spans += sum(len(spans) for _, spans in batch)
        elif len(batch) == 1:
            self.tally.refused += 1
        else:
            for one in batch:
                self._deliver([one])

    def _taken(self, spans: "Sequence[ReadableSpan]") -> bool:
        """Wait until the collector is reachable. Return False if it rejects these spans."""
        began = self._now()
        url = self._collector.url
        for tries in count():
            if self._collector.takes(spans):
                return True
            # An empty request tests whether the collector is reachable.
            if self._collector.takes(()):
                return False
            if self._now() - began >= self._limits.patience:
                raise ControlError(
                    f"{url} does not accept spans: is there a collector for OTLP over HTTP?"
                )
            self.wait(tries, f"{url} does not accept spans, so trees wait in Kafka")
        raise AssertionError


def pause(tries: int, why: str, sleep: Callable[[float], None]) -> None:
    """Pause before another attempt, with exponential backoff.

    Logs the reason after 1, 2, 4, 8, … attempts.
    """
    seconds = min(_LONGEST_WAIT_SECS, 2.0**tries)
    # tries + 1 is a power of two.
    if (tries + 1).bit_count() == 1:
        _log.warning("%s: next attempt in %g s", why, seconds)
    sleep(seconds)


def export_until(exporter: TreeExporter, until: int) -> None:
    """Export everything up to a Unix time in ms."""
    while exporter.tail.until < until:
        exporter.step(until)


def export_forever(
    exporter: TreeExporter,
    report: Callable[[str], None],
    settle_ms: int = 1_000,
    look_secs: float = 1.0,
    tell_secs: float = 60.0,
) -> None:
    """Export forever, and call `report` after each minute in which trees were sent or omitted."""
    tries, told = 0, time.monotonic()
    while True:
        until = int(time.time() * 1000) - settle_ms
        try:
            exporter.step(until)
            tries = 0
        except BrokerError as error:
            exporter.wait(tries, str(error))
            tries += 1
        if time.monotonic() - told >= tell_secs:
            told = time.monotonic()
            if exporter.tally:
                report(exporter.report())
        if not tries and until - exporter.tail.until < look_secs * 1000:
            time.sleep(look_secs)
