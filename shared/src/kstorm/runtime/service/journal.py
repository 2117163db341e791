"""What a process notes of its work: lines in the log, and the last error for its pages."""

import time
from typing import Any

from kstorm.errors import KstormError
from kstorm.runtime.service.log import Logger
from kstorm.runtime.service.tally import log_emits


class ServiceJournal:
    """The journal of a service: see `kstorm.core.engine.journal`."""

    def __init__(self, log: Logger) -> None:
        self.log = log
        self.errors = 0
        """Errors of the user's code so far."""
        self.last_error = ""
        self._last_error_at = 0.0

    @property
    def last_error_age(self) -> float | None:
        """Seconds since the last error; None if there was none."""
        return time.monotonic() - self._last_error_at if self.last_error else None

    def error(self, error: BaseException, doing: str, task: int) -> None:
        """An error in user code: counted and logged; the task goes on."""
        self.errors += 1
        self.last_error, self._last_error_at = f"{type(error).__name__}: {error}", time.monotonic()
        trace = None if isinstance(error, KstormError) else error
        self.log.error("component_error", doing=doing, task=task, error=self.last_error, exc_info=trace)

    def info(self, event: str, **fields: Any) -> None:
        """Logs."""
        self.log.info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Logs."""
        self.log.warning(event, **fields)

    def made(self, task: Any, task_id: int) -> None:
        """`topology_debug` logs every emit."""
        if task.config.topology_debug:
            log_emits(task.collector, self.log, task_id)
