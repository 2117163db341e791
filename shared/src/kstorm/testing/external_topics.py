"""Systems outside a simulated cluster that take part in its transactions."""

from collections.abc import Callable
from typing import Final, Protocol

from kstorm.core.outgoing import OutgoingRecord

OUTSIDE: Final = "outside"
"""Resource name of the `ExternalTopics` that receives records for topics that do not belong to the
topology."""

AT_COMMIT: Final = ""
"""Topic of an `OutgoingRecord` that is not a record. Its value is called when its epoch is committed."""


COMMIT: Final = "commit"
"""Resource name of a factory that bolts of an exactly-once topology call in `prepare`.

Each bolt gets a function of its own. The function takes a callback to run when the current
execution is committed.
"""


class PermanentRefusal(str):
    """Reason for a permanent refusal of a record. The record becomes a dead letter in the same
    epoch.

    Any other reason is temporary: an operator can fix its cause.
    """

    __slots__ = ()


class ExternalTopics(Protocol):
    """Topics on the same Kafka that do not belong to the cluster."""

    @property
    def away(self) -> bool:
        """True while unreachable. A transaction with records for it then waits."""

    def refusal(self, record: OutgoingRecord) -> str:
        """Return the reason why it refuses a record, or "". Called once per attempt to write the
        record."""

    def partition(self, record: OutgoingRecord) -> int:
        """Return the partition that a record is written to."""

    def take(self, record: OutgoingRecord, partition: int) -> None:
        """Receive a committed record, once its partition knows of the commit."""


def at_commit(act: Callable[[], object]) -> OutgoingRecord:
    """Return an `OutgoingRecord` that calls `act` when its epoch is committed, and never if it is not."""
    return OutgoingRecord(AT_COMMIT, 0, act)
