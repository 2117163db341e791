"""Determines when and where a spout raises."""

from dataclasses import dataclass
from typing import Final

from kstorm.topology import TopologyContext
from tests.sim.truth import Truth


@dataclass(frozen=True)
class SpoutErrors:
    """The default is never."""

    loud: bool = False
    """True if some methods raise after their work, which must have no effect.

    These are each third `next_tuple`, `ack` and `fail`, and each `close`.
    """
    moody: bool = False
    """True if some lifecycle methods raise, which ends the process.

    These are `open` in each second run of a task, each second `activate`, and each third
    `deactivate`.
    """

    def speak(self, truth: Truth, what: str) -> None:
        """Raise at times, where that must have no effect."""
        if self.loud and (what == "close" or truth.happens(what) % 3 == 0):
            raise ValueError("as told")

    def sulk(self, truth: Truth, what: str, context: TopologyContext) -> None:
        """Raise at times, where that ends the process."""
        every = 3 if what == "deactivate" else 2
        if self.moody and truth.happens(what, context.component, context.task_index) % every == 0:
            truth.ends += 1
            raise ValueError("as told")


NO_ERRORS: Final = SpoutErrors()
