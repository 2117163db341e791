"""Run the pipeline's audit at the end of a run, to check that every message is accounted for. See
docs/guides/audit.md."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kstorm.dev.pipeline import await_end, pipeline_process
from kstorm.errors import LocalError

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class AuditedTable:
    """Result of an audit."""

    messages: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """Messages by outcome: done, dead and so on."""
    gaps: int = 0
    """Offsets that are not accounted for."""
    trees: int | None = None
    """Completed trees that were recomputed. None without ackers."""
    findings: Sequence[str] = ()
    """Violations found, one line each."""

    def __str__(self) -> str:
        outcomes = ", ".join(
            f"{count:,} {outcome}" for outcome, count in sorted(self.outcomes.items())
        )
        trees = "" if self.trees is None else f"; {self.trees:,} trees recomputed"
        return f"{self.messages:,} messages ({outcomes}), gaps: {self.gaps}, faults: {len(self.findings)}{trees}"

    def faults(self) -> list[str]:
        """Return one sentence per problem. Empty if there is none."""
        left = self.outcomes.get("not due", 0)
        found = [f"the audit finds {left} messages that are not done"] if left else []
        if self.findings:
            few = "; ".join(self.findings[:_SHOWN])
            found.append(f"the audit finds {len(self.findings)} faults: {few}")
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "messages": self.messages,
            **{outcome.replace(" ", "_"): count for outcome, count in self.outcomes.items()},
            "gaps": self.gaps,
            "trees": self.trees,
            "faults": list(self.findings),
        }


NOTHING: Final = AuditedTable()
"""Result for a topology that has read nothing."""


class Audit:
    """The process that audits all messages that a topology has read. The topology must be idle.

    Its tables are below `workdir`.
    """

    def __init__(self, workdir: Path, bootstrap: str, zookeeper: str, topology: str) -> None:
        self._report = workdir / "audit.json"
        arguments: dict[str, Any] = {
            "--bootstrap-servers": bootstrap,
            "--zookeeper": zookeeper,
            "--topology": topology,
            "--tables": workdir / "tables",
            "--report": self._report,
        }
        self.process = pipeline_process("audit", "audit", arguments, workdir)

    def run(self) -> AuditedTable:
        """Run the audit to its end. Raises `LocalError` with the end of its log if it fails."""
        process, started = self.process, time.monotonic()
        process.start()
        try:
            await_end(process, started, lambda: None)
        finally:
            process.stop()
        if not self._report.exists():
            raise LocalError(
                f"the audit failed; its log {process.log_path} ends with:\n{process.log_tail(5)}"
            )
        return read_audit(self._report.read_text(encoding="utf-8"))


def read_audit(said: str) -> AuditedTable:
    """Parse the audit's report."""
    found = json.loads(said)
    trees = None if found["trees"] is None else found["trees"]["said"]
    return AuditedTable(found["messages"], found["outcomes"], found["gaps"], trees, found["faults"])
