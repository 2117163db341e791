"""A complete chaos run.

It starts servers, creates topics, starts processes, and feeds messages at a steady rate with one
fault after the other. Then it waits until everything is finished, produces the last counts, audits
and reports. In all cases it stops started processes and repairs damage.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from kstorm.dev.live_view import LiveView
from kstorm.dev.paths import remove_bulk, run_directory
from kstorm.dev.pipeline_audit import Audit, AuditedTable
from kstorm.errors import KstormError, LocalError
from tests.chaos.evidence import Evidence
from tests.chaos.fault_sequence import FaultSequence
from tests.chaos.feed import Feed, PostedMessage
from tests.chaos.findings import ChaosFindings
from tests.chaos.options import ChaosOptions
from tests.chaos.outcome import ChaosOutcome, Episode
from tests.chaos.page import renew_page, write_page
from tests.chaos.plain_readers import OffsetWatch, TopicReader
from tests.chaos.report import print_outcome, sum_up
from tests.chaos.testbed import Testbed, open_testbed, post_all
from tests.chaos.topology import PARTITIONS, SOURCE

_LOOK_SECS: Final = 0.2
_READY_SECS: Final = 240.0
_FINISH_SECS: Final = 180.0
_OUTPUT_SECS: Final = 60.0


class Chaos:
    """One run. `run` returns the exit code: 0, or 1 if output is lost or wrong or not audited."""

    def __init__(self, options: ChaosOptions, console: Console) -> None:
        self._options, self._console = options, console
        self._started = time.monotonic()
        self._episodes: list[Episode] = []
        self._skipped: dict[str, str] = {}
        self._directory: Path

    def run(self) -> int:
        """Run it. If it fails, the error names the folder of the logs, which are kept."""
        self._directory = run_directory()
        logging.basicConfig(
            filename=self._directory / "chaos.log",
            level=logging.INFO,
            format="%(asctime)s %(levelname)s %(message)s",
        )
        self._say(f"seed {self._options.seed}; again: {self._options.command}")
        self._say(f"logs of this run: {self._directory}")
        try:
            findings, poison, audited = self._break_and_audit()
        except KstormError as error:
            self._fail(f"{error}")
            return 1
        return self._finish(
            ChaosOutcome(self._options, findings, self._episodes, self._skipped, poison, audited)
        )

    def _break_and_audit(self) -> tuple[ChaosFindings, int, AuditedTable]:
        self._say("starting Kafka, ZooKeeper and the processes")
        options = self._options
        subject = options.subject
        opened = open_testbed(
            subject,
            self._directory,
            options.message_timeout_secs,
            options.guarantee,
            options.brokers,
        )
        with opened as stage, ExitStack() as stack:
            stage.processes.wait_ready(_READY_SECS)
            positions_at = stage.kafka.bootstrap if options.exactly_once else ""
            offsets = OffsetWatch(
                stage.zookeeper.connect, subject.offsets_path, PARTITIONS, positions_at
            )
            stack.callback(offsets.stop)
            offsets.start()
            feed = Feed(stage.kafka.bootstrap, options.rate, subject.message)
            stack.callback(feed.give_up)
            view = stack.enter_context(LiveView(self._console, self._options.messages))
            FaultSequence(
                self._options, stage, feed, view, self._say, self._episodes, self._skipped
            ).run()
            self._say(f"{feed.produced:,} messages are out; waiting until all are finished")
            reader = TopicReader(stage.kafka.bootstrap)
            self._await_end(offsets, reader)
            last = subject.last(feed.produced, options.rate)
            post_all(
                stage.kafka.bootstrap,
                SOURCE,
                [(each.text.encode(), each.partition) for each in last],
            )
            self._await_end(offsets, reader)
            self._await_outputs(reader, stage, last)
            self._say("stopping the processes; then the audit reads every topic")
            stage.processes.stop()
            offsets.look()
            findings = self._audit(reader, stage, last, offsets)
            return findings, len(stage.poison) + len(stage.parted), self._account(stage)

    def _await_end(self, offsets: OffsetWatch, reader: TopicReader) -> None:
        """Wait until the stored offsets are the ends. After a timeout, the audit reports the rest.

        Both are read with a plain client.
        """
        deadline = time.monotonic() + _FINISH_SECS
        ends = reader.ends(SOURCE)
        while offsets.stored() != ends:
            if time.monotonic() > deadline:
                self._say(
                    f"not finished after {_FINISH_SECS:.0f} s: stored {offsets.stored()}, ends {ends}",
                    "bold red",
                )
                return
            time.sleep(_LOOK_SECS)

    def _await_outputs(
        self, reader: TopicReader, stage: Testbed, last: Sequence[PostedMessage]
    ) -> None:
        """Wait until nothing is missing. After a timeout, the audit reports the rest.

        Windows end by the clock, after the spout has finished.
        """
        deadline = time.monotonic() + _OUTPUT_SECS
        while (found := self._audit(reader, stage, last)).lost or found.short:
            if time.monotonic() > deadline:
                return
            time.sleep(_LOOK_SECS)

    def _audit(
        self,
        reader: TopicReader,
        stage: Testbed,
        last: Sequence[PostedMessage],
        offsets: OffsetWatch | None = None,
    ) -> ChaosFindings:
        """Audit the topics, and with `offsets` also the offsets."""
        try:
            return self._options.subject.audit(
                Evidence(
                    list(reader.records(SOURCE)),
                    reader.records,
                    list(reader.letters(stage.processes.topology.dead_letters_topic)),
                    poison=set(stage.poison),
                    parted=stage.parted,
                    last={each.id for each in last},
                    offsets=[] if offsets is None else offsets.seen,
                    ends={} if offsets is None else reader.ends(SOURCE),
                )
            )
        except ValueError as error:
            raise LocalError(f"the audit cannot finish: {error}") from error

    def _account(self, stage: Testbed) -> AuditedTable:
        self._say("accounting for every message")
        run = Audit(
            self._directory,
            stage.kafka.bootstrap,
            stage.zookeeper.connect,
            stage.processes.topology.name,
        )
        audited = run.run()
        self._say(f"audit: {audited}")
        return audited

    def _finish(self, outcome: ChaosOutcome) -> int:
        print_outcome(outcome, self._console)
        if self._options.report is not None and outcome.whole:
            write = write_page if self._options.report_asked else renew_page
            write(sum_up(outcome), self._options.report)
            self._say(f"written: {self._options.report}")
        if faults := outcome.faults():
            self._fail("; ".join(faults))
            return 1
        remove_bulk(self._directory)
        self._console.print(
            f"lost: 0, in {time.monotonic() - self._started:.0f} s.", style="bold green"
        )
        return 0

    def _fail(self, why: str) -> None:
        text = (
            f"NOT GOOD: {why}.\nseed {self._options.seed}; the logs are kept in {self._directory}"
        )
        self._console.print(text, style="bold red", markup=False, highlight=False, soft_wrap=True)

    def _say(self, text: str, style: str = "") -> None:
        line = Text(f"{time.monotonic() - self._started:6.1f} s  ", style="dim")
        self._console.print(line + Text(text, style=style or "not dim"), soft_wrap=True)
