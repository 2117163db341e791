"""What a process notes of its work: lines in the log, and for its pages what the last error was, without its text.

Whoever reaches the pages reads them without a login, and nobody knows what a library writes into an error: a URL with a token, say.
"""

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
        self._last_error = ""
        self._last_error_task: int | None = None
        self._last_error_at = 0.0
        self._trouble = ""

    def status(self) -> dict[str, Any]:
        """What to show at `/status`: of the last error its type, its task and its age in seconds, None if there was none."""
        return {
            "errors": self.errors,
            "last_error": self._last_error,
            "last_error_task": self._last_error_task,
            "last_error_age": time.monotonic() - self._last_error_at if self._last_error else None,
        }

    def error(self, error: BaseException, doing: str, task: int) -> None:
        """An error in user code: counted and logged; the task goes on."""
        self.errors += 1
        self._last_error, self._last_error_task = type(error).__name__, task
        self._last_error_at = time.monotonic()
        trace = None if isinstance(error, KstormError) else error
        text = f"{type(error).__name__}: {error}"
        self.log.error("component_error", doing=doing, task=task, error=text, exc_info=trace)

    def trouble(self, problem: Exception, task: int) -> str:
        """What to show of that which keeps a task from its work: its type alone, if the text is not kstorm's; that is logged."""
        if isinstance(problem, KstormError):
            return str(problem)
        kind = type(problem).__name__
        trouble = f"{task} {kind}: {problem}"
        if trouble != self._trouble:  # probes ask every few seconds
            self._trouble = trouble
            self.log.warning("not_ready", task=task, problem=f"{kind}: {problem}")
        return f"task {task} has a problem, {kind}: its text is in the log"

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
