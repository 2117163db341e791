"""Log of a process's work. For the web pages it keeps the last error, without the text.

The pages need no login, and libraries may put secrets into an error's text, such as a URL with a
token.
"""

import time
from typing import Any

from kstorm.errors import KstormError
from kstorm.runtime.base.log import Logger
from kstorm.runtime.service.task_totals import log_emits


class ServiceJournal:
    """The journal of a service. It implements `kstorm.core.engine.journal`."""

    def __init__(self, log: Logger) -> None:
        self.log = log
        self.errors = 0
        """Number of errors in the user's code."""
        self._last_error = ""
        self._last_error_task: int | None = None
        self._last_error_at = 0.0
        self._trouble = ""

    def status(self) -> dict[str, Any]:
        """Return the data for `/status`: type, task and age in seconds of the last error. The age
        is None without errors."""
        return {
            "errors": self.errors,
            "last_error": self._last_error,
            "last_error_task": self._last_error_task,
            "last_error_age": time.monotonic() - self._last_error_at if self._last_error else None,
        }

    def error(self, error: BaseException, doing: str, task: int) -> None:
        """Count and log an error in user code. The task continues."""
        self.errors += 1
        self._last_error, self._last_error_task = type(error).__name__, task
        self._last_error_at = time.monotonic()
        trace = None if isinstance(error, KstormError) else error
        text = f"{type(error).__name__}: {error}"
        self.log.error("component_error", doing=doing, task=task, error=text, exc_info=trace)

    def trouble(self, problem: Exception, task: int) -> str:
        """Describe a problem that keeps a task from working. Unless it is kstorm's own error, show
        only its type and log its text."""
        if isinstance(problem, KstormError):
            return str(problem)
        kind = type(problem).__name__
        trouble = f"{task} {kind}: {problem}"
        # Probes call this every few seconds.
        if trouble != self._trouble:
            self._trouble = trouble
            self.log.warning("not_ready", task=task, problem=f"{kind}: {problem}")
        return f"task {task} has a problem, {kind}: its text is in the log"

    def info(self, event: str, **fields: Any) -> None:
        self.log.info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        self.log.warning(event, **fields)

    def made(self, task: Any, task_id: int) -> None:
        # With `topology_debug`, log every emit.
        if task.config.topology_debug:
            log_emits(task.collector, self.log, task_id)
