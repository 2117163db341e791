"""What lies outside of a simulated cluster, and has a part in its transactions."""

from collections.abc import Callable
from typing import Final, Protocol

from kstorm.core.outgoing import Outgoing

OUTSIDE: Final = "outside"
"""Under this name a cluster finds in its resources who takes the records of topics that are not the topology's own."""

AT_COMMIT: Final = ""
"""The topic of an `Outgoing` that is no record: its value is called when its epoch is committed."""


COMMIT: Final = "commit"
"""Under this name the bolts of a topology that is processed exactly once find, while they are prepared, what gives each a function
of its own: it takes something that is done when the execution under way is committed."""


class ForGood(str):
    """Why a record is refused that will never be taken: it becomes a dead letter, in the same epoch. Whatever else a record is
    refused for somebody can mend."""

    __slots__ = ()


class Outside(Protocol):
    """Topics that are no part of the cluster, on the same Kafka."""

    @property
    def away(self) -> bool:
        """Whether it cannot be reached; then a transaction with records for it waits."""
        ...

    def refusal(self, record: Outgoing) -> str:
        """Why it does not take a record; empty if it does. Asked once for each try to write a record."""
        ...

    def partition(self, record: Outgoing) -> int:
        """Into which partition it is written."""
        ...

    def take(self, record: Outgoing, partition: int) -> None:
        """A record is committed, and its partition knows that."""
        ...


def at_commit(act: Callable[[], object]) -> Outgoing:
    """Something that is done when the epoch it is written in is committed, and never if that is not."""
    return Outgoing(AT_COMMIT, 0, act)
