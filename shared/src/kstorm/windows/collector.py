"""What a windowed bolt emits through."""

from collections.abc import Sequence
from typing import Any

from kstorm.topology import DEFAULT_STREAM, Anchors, BasicOutputCollector


class WindowCollector:
    """As an `OutputCollector`, while a window is shown; the tuples of windows are done, so that nothing hangs on them."""

    def __init__(self) -> None:
        self.current: BasicOutputCollector | None = None
        """That of the execution under way."""

    def emit(
        self,
        values: Sequence[Any],
        anchors: Anchors = None,
        stream: str = DEFAULT_STREAM,
        task: int | None = None,
    ) -> Sequence[int]:
        """Emits a tuple; returns the ids of the tasks that it went to. `anchors` may be given, and have no effect. Raises
        `EmitError` as `OutputCollector.emit`, and `RuntimeError` if no window is shown at the moment."""
        if self.current is None:
            raise RuntimeError(
                "a windowed bolt emits while a window is shown to it, and at no other time"
            )
        return self.current.emit(values, stream, task)

    def report_error(self, error: BaseException) -> None:
        """Logs an error with the component and task, and counts it."""
        if self.current is not None:
            self.current.report_error(error)

    def ack(self, tuple: Any) -> None:
        """Has no effect: the tuples of windows are done."""

    def fail(self, tuple: Any) -> None:
        """Raises `RuntimeError`: the tuples of windows are done. Raise an error in `execute` to see the window again."""
        raise RuntimeError(
            "the tuples of a window are done: raise an error in execute to have the window shown again"
        )
