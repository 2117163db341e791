"""Ends a run with the pipeline's audit: is every message of the topology accounted for? docs/audit.md says what is asked."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kstorm.errors import LocalError
from kstorm.local.jars import spark_jars
from kstorm.local.java import SHORT_RUN_OPTIONS, spark_environment
from kstorm.local.pipeline import MODULE, check_installed
from kstorm.local.processes import ManagedProcess

_LONGEST_SECS: Final = 900.0
_LOOK_SECS: Final = 1.0
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Audited:
    """What it found."""

    messages: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """How many messages are done, dead and so on."""
    gaps: int = 0
    """Offsets that nobody accounts for."""
    trees: int | None = None
    """How many completed trees were reckoned again; None without ackers."""
    findings: Sequence[str] = ()
    """What must not be, a line each."""

    def __str__(self) -> str:
        """In one line."""
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        trees = "" if self.trees is None else f"; {self.trees:,} trees reckoned again"
        return f"{self.messages:,} messages ({outcomes}), gaps: {self.gaps}, faults: {len(self.findings)}{trees}"

    def faults(self) -> list[str]:
        """What is wrong, a sentence each; empty if all is well."""
        left = self.outcomes.get("not due", 0)
        found = [f"the audit finds {left} messages that are not done"] if left else []
        if self.findings:
            few = "; ".join(self.findings[:_SHOWN])
            found.append(f"the audit finds {len(self.findings)} faults: {few}")
        return found

    def to_json(self) -> dict[str, Any]:
        """For a report."""
        return {
            "messages": self.messages,
            **{outcome.replace(" ", "_"): count for outcome, count in self.outcomes.items()},
            "gaps": self.gaps,
            "trees": self.trees,
            "faults": list(self.findings),
        }


NOTHING: Final = Audited()
"""Of a topology that has read nothing."""


class Audit:
    """The process that audits all that a topology has read, which is to be at rest. Its tables are below `workdir`."""

    def __init__(self, workdir: Path, bootstrap: str, zookeeper: str, topology: str) -> None:
        check_installed()
        self._report = workdir / "audit.json"
        arguments: dict[str, Any] = {
            "--bootstrap-servers": bootstrap,
            "--zookeeper": zookeeper,
            "--topology": topology,
            "--tables": workdir / "tables",
            "--jars": ",".join(map(str, spark_jars())),
            "--report": self._report,
        }
        flags = [str(part) for pair in arguments.items() for part in pair]
        flags.append(f"--driver-java-options={SHORT_RUN_OPTIONS}")
        command = [sys.executable, "-m", MODULE, "audit", *flags]
        self.process = ManagedProcess("audit", command, workdir=workdir, environment=spark_environment())

    def run(self, on_look: Callable[[], None] = lambda: None) -> Audited:
        """Runs it to its end; `LocalError` with the end of its log if it cannot. `on_look` is called every second."""
        started = time.monotonic()
        process = self.process
        process.start()
        try:
            while process.alive:
                if time.monotonic() - started > _LONGEST_SECS:
                    raise LocalError(f"the audit is not done after {_LONGEST_SECS:g} s; its log is {process.log_path}")
                on_look()
                process.wait(_LOOK_SECS)
        finally:
            process.stop()
        if not self._report.exists():
            raise LocalError(f"the audit failed; its log {process.log_path} ends with:\n{process.log_tail(5)}")
        return read_audit(self._report.read_text(encoding="utf-8"))


def read_audit(said: str) -> Audited:
    """What the audit has printed."""
    found = json.loads(said)
    trees = None if found["trees"] is None else found["trees"]["said"]
    return Audited(found["messages"], found["outcomes"], found["gaps"], trees, found["faults"])
