"""A run of hours that may be interrupted: its results so far, in a file to continue from."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kstorm.errors import ConfigError
from tests.sim.outcome import SimOutcome

_LIST_FILES: Final = """
import sys, tests.sim
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "kstorm":
        print(name, module.__file__)
"""


class RunJournal:
    """The finished schedules of a run, and their outcome. The same code ran all of them."""

    def __init__(
        self, path: Path | None, seeds: Sequence[int], kind: str = SimOutcome.kind
    ) -> None:
        """Read `path` if it exists. Without a path, nothing is stored.

        Raises `ConfigError` if the file belongs to other schedules or other code, or cannot be
        written.
        """
        self._path = path
        self._run = {
            "kind": kind,
            "first": seeds[0],
            "schedules": len(seeds),
            "code": _code() if path else "",
        }
        self.done: set[int] = set()
        """The first seed of each finished part."""
        self.outcome = SimOutcome(kind)
        if path and not path.parent.is_dir():
            raise ConfigError(f"--resume {path}: there is no folder {path.parent} to write it to")
        if path and path.exists():
            self._read(path)

    def add(self, first: int, part: SimOutcome) -> None:
        """Add the outcome of the part that begins with the seed `first`."""
        self.done.add(first)
        self.outcome.add(part)

    def save(self) -> None:
        """Write the file atomically."""
        if self._path is None:
            return
        outcome = vars(self.outcome) | {
            "reached": [[*line, times] for line, times in self.outcome.reached.items()]
        }
        unfinished = self._path.with_name(f"{self._path.name}.unfinished")
        unfinished.write_text(
            json.dumps({"run": self._run, "done": sorted(self.done), "outcome": outcome})
        )
        unfinished.replace(self._path)

    def _read(self, path: Path) -> None:
        try:
            saved: dict[str, Any] = json.loads(path.read_text())
            run, self.done, outcome = saved["run"], set(saved["done"]), saved["outcome"]
            reached = Counter(
                {(module, line): times for module, line, times in outcome.pop("reached")}
            )
            faults, seen = Counter(outcome.pop("faults")), Counter(outcome.pop("seen"))
            self.outcome = SimOutcome(**outcome, reached=reached, faults=faults, seen=seen)
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            raise ConfigError(
                f"--resume {path}: this is not what a run of schedules writes"
            ) from None
        if run != self._run:
            what = (
                "other code" if run["code"] != self._run["code"] else "other seeds or another kind"
            )
            raise ConfigError(
                f"--resume {path}: its {self.outcome.schedules:,} schedules ran with {what}, so they cannot be added to"
                " these: remove the file to start over"
            )


def _code() -> str:
    """Return a digest of all kstorm modules that a schedule runs, by the imports of its package."""
    printed = subprocess.run(
        [sys.executable, "-c", _LIST_FILES], capture_output=True, text=True, check=True
    ).stdout
    digest = hashlib.sha256()
    for line in sorted(printed.splitlines()):
        module, _, path = line.partition(" ")
        digest.update(module.encode() + b"\0" + Path(path).read_bytes())
    return digest.hexdigest()
