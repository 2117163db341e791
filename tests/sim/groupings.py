"""A grouping of a user's that raises."""

from collections.abc import Container, Sequence
from typing import Any, Final

from kstorm.topology import CustomStreamGrouping, TopologyContext
from tests.sim.truth import Truth

FOR_EVER: Final = range(1, 2**31)


class Picky(CustomStreamGrouping):
    """Chooses a task by the message; of each third message it refuses some of the tuples, in the order in which it is asked
    about them."""

    def __init__(self, truth: Truth, refused: Container[int]) -> None:
        """`refused`: which of a message's tuples, counted from 1 over all attempts."""
        self._truth, self._refused = truth, refused

    def prepare(
        self, context: TopologyContext, component: str, stream: str, targets: Sequence[int]
    ) -> None:
        """Keeps the targets."""
        self._edge, self._targets = (component, stream, *targets), targets

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        """One task, or an error."""
        message = values[0]
        if (
            message % 3 == 1
            and self._truth.happens("grouping", self._edge, message) in self._refused
        ):
            raise ValueError("as told")
        return [self._targets[message % len(self._targets)]]
