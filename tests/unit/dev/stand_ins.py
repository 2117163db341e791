"""Processes whose status pages come from the test, for code that reads the pages of a topology."""

from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class StandInWorker:
    name: str
    component: str


@dataclass
class StandInProcesses:
    """Workers and their status pages."""

    workers: list[StandInWorker]
    pages: dict[str, dict[str, Any] | None] = field(default_factory=dict)

    @classmethod
    def named(cls, *names: str) -> Self:
        """Create a worker per name, such as `count-0`. The name starts with the component."""
        return cls([StandInWorker(name, name.partition("-")[0]) for name in names])

    def statuses(self) -> dict[str, dict[str, Any] | None]:
        return {worker.name: self.pages.get(worker.name) for worker in self.workers}
