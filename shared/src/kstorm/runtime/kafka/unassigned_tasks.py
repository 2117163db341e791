"""Detects tasks that the group left unassigned, so that the process rejoins for a rebalance.

Cooperative tasks move in two rounds. In the first, a process revokes them and rejoins to start the
second. A static member may be killed between the two rounds and return within its session. It then
gets the assignment of the first round again, and the second round never starts. So each process
checks once after joining whether every task has an owner.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from confluent_kafka import ConsumerGroupState

from kstorm.errors import KstormError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.deadlines import DeadlineExecutor

_LOOK_SECS: Final = 2.0
_PATIENCE_SECS: Final = 4.0
"""Normal time without an owner for a moving task, if the former owner has no work to finish."""

Ask = Callable[[], "set[int] | None"]


class UnassignedTaskDetector:
    """Unassigned tasks of one group.

    `revoke_secs`: the longest time in which a process releases tasks.
    """

    def __init__(self, ask: Ask, revoke_secs: float) -> None:
        """`ask` returns the unassigned tasks, or None during a rebalance. It is allowed to block."""
        self._ask, self._revoke_secs = ask, revoke_secs
        self._caller = DeadlineExecutor("ownerless")
        self._asked: Future[set[int] | None] | None = None
        self._next = self._since = float("inf")

    def joined(self, now: float) -> None:
        """This process has joined the group."""
        self._next, self._since = now + _LOOK_SECS, float("inf")

    def look(self, now: float, *, has_tasks: bool) -> set[int]:
        """Return the tasks that remain unassigned, usually none. Never blocks.

        A process with tasks waits longer, because it would have to release them to rejoin.
        """
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
        """Stop without waiting for a pending query."""
        self._caller.close()


def query_of_unassigned(settings: Settings, group: str, topic: str) -> Ask:
    """Return a query to Kafka. It creates its own client, because it runs only about once per
    process."""

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
    """Return None if Kafka did not respond, so that the query is repeated."""
    try:
        return asked.result()
    except KstormError:
        return None
