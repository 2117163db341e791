"""A user's grouping that raises."""

from collections.abc import Container, Sequence
from typing import Any, Final

from kstorm.topology import CustomStreamGrouping, TopologyContext
from tests.sim.truth import Truth

FOR_EVER: Final = range(1, 2**31)


class Picky(CustomStreamGrouping):
    """Chooses a task by message. For each third message it refuses some of the tuples.

    They are selected by the order in which the grouping is called.
    """

    def __init__(self, truth: Truth, refused: Container[int]) -> None:
        """`refused`: numbers of a message's tuples to refuse, from 1 over all attempts."""
        self._truth, self._refused = truth, refused

    def prepare(
        self, context: TopologyContext, component: str, stream: str, targets: Sequence[int]
    ) -> None:
        self._edge, self._targets = (component, stream, *targets), targets

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        """Return one task, or raise."""
        message = values[0]
        if (
            message % 3 == 1
            and self._truth.happens("grouping", self._edge, message) in self._refused
        ):
            raise ValueError("as told")
        return [self._targets[message % len(self._targets)]]
