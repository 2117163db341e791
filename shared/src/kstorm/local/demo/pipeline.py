"""Runs the Spark pipeline over the sink topic, once, with the audit at its end, and reads what it has left."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kstorm.errors import LocalError
from kstorm.local.audit import Audited, read_audit
from kstorm.local.pipeline import await_end, pipeline_process

_PIPELINE: Final = "examples.wordcount.tables:pipeline"
_GOLD: Final = "word_counts"
_TOP: Final = 10


@dataclass(frozen=True, slots=True)
class GoldWord:
    """A row of the gold table."""

    word: str
    count: int
    """The latest count of the topology: at least once."""
    occurrences: int
    """Distinct ids: exact."""


@dataclass(frozen=True, slots=True)
class Tables:
    """What the pipeline made."""

    directory: Path
    rows: Mapping[str, int]
    """Rows of bronze, silver, quarantine and gold."""
    words: Sequence[GoldWord]
    """The gold table."""
    seconds: float
    """How long it took, with Spark's start and the audit."""

    @property
    def top(self) -> list[GoldWord]:
        """The ten words with the most occurrences."""
        return sorted(self.words, key=lambda row: (-row.occurrences, row.word))[:_TOP]

    def wrong(self, truth: Mapping[str, int]) -> dict[str, int]:
        """Words whose occurrences are not the truth exactly, or whose count is below it, with what the table says."""
        found = {row.word: row for row in self.words}
        wrong = {word: 0 for word in truth if word not in found}
        for word, row in found.items():
            if word not in truth or row.occurrences != truth[word]:
                wrong[word] = row.occurrences
            elif row.count < truth[word]:
                wrong[word] = row.count
        return wrong


class Pipeline:
    """The process that brings the tables below `workdir` up to date with the topic, and then accounts for every message that the
    topology has read: a context manager around its life."""

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
        self.process = pipeline_process("pipeline", "run", arguments, workdir)
        self._workdir = workdir
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self.process.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.stop()

    def follow(
        self, say: Callable[[str], None], on_look: Callable[[], None]
    ) -> tuple[Tables, Audited]:
        """Wait for its end, passing on what it logs; `LocalError` with the end of its log if it fails.

        `on_look` is called every second: what a process has used is only known while it runs.
        """
        process = self.process
        log = _NewLines(process.log_path)

        def look() -> None:
            on_look()
            log.pass_on(say)

        await_end(process, self._started, look)
        log.pass_on(say)
        if not self._audit.exists():
            raise LocalError(
                f"the pipeline failed; its log {process.log_path} ends with:\n{process.log_tail(5)}"
            )
        audited = read_audit(self._audit.read_text(encoding="utf-8"))
        return read_tables(self._workdir, time.monotonic() - self._started), audited


def read_tables(workdir: Path, seconds: float) -> Tables:
    """What the pipeline left to be read without Spark."""
    counted = json.loads((workdir / "tables.json").read_text(encoding="utf-8"))["rows"]
    with (workdir / "gold.jsonl").open(encoding="utf-8") as lines:
        found = map(json.loads, lines)
        words = [GoldWord(row["word"], row["count"], row["occurrences"]) for row in found]
    rows = {name: counted[name] for name in ("bronze", "silver", "quarantine")} | {
        "gold": counted[_GOLD]
    }
    return Tables(workdir / "tables", rows, words, seconds)


class _NewLines:
    """The pipeline's own lines of a log that is being written: `… INFO text`. Spark's and Java's are left out."""

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0

    def pass_on(self, say: Callable[[str], None]) -> None:
        """Say those that are new."""
        for line in self._read():
            say(line)

    def _read(self) -> list[str]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        lines = whole.decode(errors="replace").splitlines()
        return [text for _, mark, text in (line.partition(" INFO ") for line in lines) if mark]
