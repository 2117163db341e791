"""A topology that runs, and the page as a process beside it."""

import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from kstorm.local.processes import ManagedProcess
from tests.integration.engine import Engine


@dataclass(frozen=True, slots=True)
class Running:
    """Its name, where the page is, and what a test may do to it."""

    name: str
    url: str
    engine: Engine

    @property
    def page(self) -> str:
        """The topology's page."""
        return f"{self.url}/t/{self.name}"


def page_process(runs: Path) -> ManagedProcess:
    """The page over what runs there, not started yet."""
    command: list[str | Path] = [sys.executable, "-m", "kstorm_ui", "--runs", runs, "--port", "0"]
    return ManagedProcess("ui", command, workdir=runs)


def url_of(page: ManagedProcess) -> str:
    """Where it says that it is."""
    deadline = time.monotonic() + 30
    while not (found := re.search(r"the page is at (http://\S+)/", page.log_tail())):
        assert page.alive, page.log_tail()
        assert time.monotonic() < deadline, "the page does not say where it is"
        time.sleep(0.05)
    return found[1]
