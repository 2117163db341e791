"""The collector that a windowed bolt emits through."""

from collections.abc import Sequence
from typing import Any

from kstorm.topology import DEFAULT_STREAM, Anchors, BasicOutputCollector


class WindowCollector:
    """Collect output while a window is shown, like an `OutputCollector`. Output is unanchored,
    because the tuples of a window are already acked."""

    def __init__(self) -> None:
        self.current: BasicOutputCollector | None = None
        """Collector of the current execution. None while no window is shown."""

    def emit(
        self,
        values: Sequence[Any],
        anchors: Anchors = None,
        stream: str = DEFAULT_STREAM,
        task: int | None = None,
    ) -> Sequence[int]:
        """Emit a tuple and return the IDs of the tasks that it was sent to. `anchors` are accepted
        and ignored.

        Raises `EmitError` in the same cases as `OutputCollector.emit`, and `RuntimeError` if no
        window is being shown.
        """
        if self.current is None:
            raise RuntimeError("a windowed bolt may emit only while it executes a window")
        return self.current.emit(values, stream, task)

    def report_error(self, error: BaseException) -> None:
        """Log and count an error with its component and task."""
        if self.current is not None:
            self.current.report_error(error)

    def ack(self, tuple: Any) -> None:
        """Do nothing: the tuples of a window are already acked."""

    def fail(self, tuple: Any) -> None:
        """Raise `RuntimeError`: the tuples of a window are already acked. Raise an error in
        `execute` to see the window again."""
        raise RuntimeError(
            "the tuples of a window are already acked: to execute the window again, raise an "
            "error in execute"
        )
