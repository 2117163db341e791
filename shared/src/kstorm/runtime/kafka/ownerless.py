"""Tasks that a group gave to nobody: whoever finds some joins anew, so that the group spreads its tasks again.

Cooperative tasks move in two rounds: in the first a process lets go of them, and joins again to begin the second. Killed between
the two, and back within its session, a static member is answered with the first round, as if nothing had happened. So each
process looks once after it has joined, whether every task has an owner.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from confluent_kafka import ConsumerGroupState

from kstorm.errors import KstormError
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.in_time import Caller
from kstorm.runtime.service.settings import Settings

_LOOK_SECS: Final = 2.0
_PATIENCE_SECS: Final = 4.0
"""For how long tasks are without an owner where all goes well, and nothing has to be finished first."""

Ask = Callable[[], "set[int] | None"]


class Ownerless:
    """Of one group. `revoke_secs`: the longest that a process may take to let go of tasks."""

    def __init__(self, ask: Ask, revoke_secs: float) -> None:
        """`ask` says which tasks have no owner; None while the group spreads them. It may take its time."""
        self._ask, self._revoke_secs = ask, revoke_secs
        self._caller = Caller("ownerless")
        self._asked: Future[set[int] | None] | None = None
        self._next = self._since = float("inf")

    def joined(self, now: float) -> None:
        """This process is in the group."""
        self._next, self._since = now + _LOOK_SECS, float("inf")

    def look(self, now: float, *, has_tasks: bool) -> set[int]:
        """Tasks that nobody has, and nobody will; empty as a rule. Never waits. Who has tasks itself is slower to say so: it would
        have to let go of them."""
        if now < self._next:
            return set()
        if self._asked is None:
            self._asked = self._caller.begin(self._ask)
        if not self._asked.done():
            return set()
        found, self._asked = _answer(self._asked), None
        if not found:
            self._next, self._since = (
                float("inf") if found is not None else now + _LOOK_SECS,
                float("inf"),
            )
            return set()
        self._next, self._since = now + _LOOK_SECS, min(self._since, now)
        patience = _PATIENCE_SECS + (self._revoke_secs if has_tasks else 0)
        return found if now - self._since >= patience else set()

    def close(self) -> None:
        """What was asked is not waited for."""
        self._caller.close()


def asking(settings: Settings, group: str, topic: str) -> Ask:
    """Asks Kafka, each time by a client of its own, as it is asked once in a process's life."""

    def ask() -> set[int] | None:
        admin = Admin(settings)
        described = admin.described_groups([group])[group]
        if described is None or described.state is not ConsumerGroupState.STABLE:
            return None
        return set(range(admin.partition_counts()[topic])) - {
            place.partition
            for member in described.members
            for place in member.assignment.topic_partitions
            if place.topic == topic
        }

    return ask


def _answer(asked: "Future[set[int] | None]") -> set[int] | None:
    """A Kafka that does not answer is asked again."""
    try:
        return asked.result()
    except KstormError:
        return None
