"""Reports of an engine besides its effects, for logs, metrics and tests.

Nothing depends on them.
"""

from typing import Any, Protocol


class Journal(Protocol):
    def error(self, error: BaseException, doing: str, task: int) -> None:
        """The user code of a task (topology-wide id) raised or reported an error.

        The task continues.
        """

    def info(self, event: str, **fields: Any) -> None:
        """Log an event."""

    def warning(self, event: str, **fields: Any) -> None:
        """Log an event that an operator may have to check."""

    def made(self, task: Any, task_id: int) -> None:
        """A `BoltTask` or `SpoutTask` was created. Its component is not prepared yet."""
