"""What an engine reports besides its effects: for logs, for figures, for the notes of a test. Nothing depends on it."""

from typing import Any, Protocol


class Journal(Protocol):
    """Where a process notes what happens."""

    def error(self, error: BaseException, doing: str, task: int) -> None:
        """The user's code of a task (topology-wide id) raised or reported something; the task goes on."""
        ...

    def info(self, event: str, **fields: Any) -> None:
        """Something worth a line."""
        ...

    def warning(self, event: str, **fields: Any) -> None:
        """Something that an operator may have to look at."""
        ...

    def made(self, task: Any, task_id: int) -> None:
        """A `BoltTask` or `SpoutTask` was made, and its component is not prepared yet."""
        ...
