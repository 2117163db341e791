"""When a spout raises, and where."""

from dataclasses import dataclass
from typing import Final

from kstorm.topology import TopologyContext
from tests.sim.truth import Truth


@dataclass(frozen=True)
class Moods:
    """By default it never does."""

    loud: bool = False
    """Whether each third `next_tuple`, `ack` and `fail`, and each `close`, raises when its work is done: that must cost
    nothing."""
    moody: bool = False
    """Whether `open` raises in each second life of a task, and each second `activate` and third `deactivate`: that ends the
    process."""

    def speak(self, truth: Truth, what: str) -> None:
        """Raises now and then, where that must cost nothing."""
        if self.loud and (what == "close" or truth.happens(what) % 3 == 0):
            raise ValueError("as told")

    def sulk(self, truth: Truth, what: str, context: TopologyContext) -> None:
        """Raises now and then, where that ends the process."""
        every = 3 if what == "deactivate" else 2
        if self.moody and truth.happens(what, context.component, context.task_index) % every == 0:
            truth.ends += 1
            raise ValueError("as told")


CONTENT: Final = Moods()
