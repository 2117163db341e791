"""Run the Spark pipeline once over the sink topic, with an audit at its end, and read its results."""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from kstorm.dev.demo.options import WORDCOUNT
from kstorm.dev.failure_causes import cause_in
from kstorm.dev.pipeline import pipeline_process
from kstorm.dev.pipeline_audit import AuditedTable, read_audit
from kstorm.dev.stage_progress import StageProgress
from kstorm.errors import LocalError

_PIPELINE: Final = f"{WORDCOUNT}.tables:pipeline"
_GOLD: Final = "word_counts"
_TOP: Final = 10
_LONGEST_SECS: Final = 900.0
_LOOK_SECS: Final = 0.2
_END_SECS: Final = 10.0
_STEPS: Final = (
    (" started, ", 0.1, "reading the topic"),
    (" bronze: batch ", 0.3, "bronze, silver and gold"),
    (" refine: batch ", 0.6, "reading the tables"),
    (" reading the tables", 0.65, "reading the tables"),
    (" audit: ", 0.75, "audit"),
)
"""Texts in the pipeline's log, each with the share that is done at that point and the next step."""


@dataclass(frozen=True, slots=True)
class GoldWord:
    """A row of the gold table."""

    word: str
    count: int
    """The latest count of the topology; with at-least-once processing it may be too high."""
    occurrences: int
    """The number of distinct ids, which is exact with every guarantee."""


@dataclass(frozen=True, slots=True)
class DemoTables:
    """The tables that the pipeline made."""

    directory: Path
    rows: Mapping[str, int]
    """The number of rows of bronze, silver, quarantine and gold."""
    words: Sequence[GoldWord]
    """The rows of the gold table."""
    seconds: float
    """The seconds from the completion of the topic to the end of the audit."""

    @property
    def top(self) -> list[GoldWord]:
        """The ten words with the most occurrences."""
        return sorted(self.words, key=lambda row: (-row.occurrences, row.word))[:_TOP]

    def wrong(self, truth: Mapping[str, int]) -> dict[str, int]:
        """Words with wrong occurrences or with a count that is too low, each with the number in the table."""
        found = {row.word: row for row in self.words}
        wrong = {word: 0 for word in truth if word not in found}
        for word, row in found.items():
            if word not in truth or row.occurrences != truth[word]:
                wrong[word] = row.occurrences
            elif row.count < truth[word]:
                wrong[word] = row.count
        return wrong


class DemoPipeline:
    """The process that updates the tables below `workdir` from the topic, and then accounts for
    every message that the topology has read. Use it as a context manager: Spark starts when the
    block is entered, and the pipeline reads the topic after `begin`."""

    def __init__(
        self, workdir: Path, bootstrap: str, zookeeper: str, topic: str, topology: str
    ) -> None:
        self._audit = workdir / "audit.json"
        arguments: dict[str, Any] = {
            "--bootstrap-servers": bootstrap,
            "--zookeeper": zookeeper,
            "--topic": topic,
            "--topology": topology,
            "--tables": workdir / "tables",
            "--trigger": "available-now",
            "--max-records-per-batch": 1_000_000,
            "--pipeline": _PIPELINE,
            "--report": workdir / "tables.json",
            "--export": f"{_GOLD}={workdir / 'gold.jsonl'}",
            "--audit": self._audit,
        }
        self._scratch = workdir / "scratch"
        self._scratch.mkdir()
        self._topic_is_complete = workdir / "topic-is-complete"
        self.process = pipeline_process(
            "pipeline",
            "run",
            arguments,
            workdir,
            begins_at=self._topic_is_complete,
            scratch=self._scratch,
        )
        self._workdir = workdir
        self._began = time.monotonic()

    def begin(self) -> None:
        """Let the pipeline read the topic, which is complete now."""
        self._began = time.monotonic()
        self._topic_is_complete.touch()

    def check(self) -> None:
        """Raise `LocalError`, with the cause or the end of the log, if the process has ended early."""
        if self.process.starts and not self.process.alive and not self._audit.exists():
            cause = cause_in(self.process.log_tail(200), self._workdir)
            raise LocalError(
                f"the pipeline failed{cause}; its log {self.process.log_path} ends with:\n{self.process.log_tail(5)}"
            )

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.process.wait(_END_SECS)
        self.process.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._topic_is_complete.unlink(missing_ok=True)

    def follow(
        self, progress: StageProgress, on_look: Callable[[], None]
    ) -> tuple[DemoTables, AuditedTable]:
        """Wait until the audit is written. Raises `LocalError`, with the cause or the end of the
        log, if the process fails.

        `on_look` is called several times a second: because the usage of a process can be measured
        only while it runs.
        """
        log = _Steps(self.process.log_path)
        while not (text := self._written_audit()):
            if time.monotonic() - self._began > _LONGEST_SECS:
                raise LocalError(
                    f"the pipeline is still running after {_LONGEST_SECS:g} s; its log is {self.process.log_path}"
                )
            self.check()
            on_look()
            progress.show(*log.look())
            self.process.wait(_LOOK_SECS)
        return read_tables(self._workdir, time.monotonic() - self._began), read_audit(text)

    def _written_audit(self) -> str:
        """The audit's line; empty until it is complete."""
        if not self._audit.exists():
            return ""
        text = self._audit.read_text(encoding="utf-8")
        return text if text.endswith("\n") else ""


def read_tables(workdir: Path, seconds: float) -> DemoTables:
    """Read the results that the pipeline wrote for readers without Spark."""
    counted = json.loads((workdir / "tables.json").read_text(encoding="utf-8"))["rows"]
    with (workdir / "gold.jsonl").open(encoding="utf-8") as lines:
        found = map(json.loads, lines)
        words = [GoldWord(row["word"], row["count"], row["occurrences"]) for row in found]
    rows = {name: counted[name] for name in ("bronze", "silver", "quarantine")} | {
        "gold": counted[_GOLD]
    }
    return DemoTables(workdir / "tables", rows, words, seconds)


class _Steps:
    """The progress of the pipeline, from its log."""

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0
        self._share, self._note = 0.0, "starting Spark"

    def look(self) -> tuple[float, str]:
        """Return the share that is done and the current step."""
        for line in self._new_lines():
            for mark, share, note in _STEPS:
                if mark in line:
                    self._share, self._note = share, note
        return self._share, self._note

    def _new_lines(self) -> list[str]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        return whole.decode(errors="replace").splitlines()
