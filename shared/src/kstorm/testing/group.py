"""A simulated consumer group: who is in it, of which generation, and whose commits it takes.

Members are static, as those of the services: a process that comes back under its name takes its predecessor's place, and
nobody else hears of it. Whoever else comes or goes makes a new generation, which the others learn step by step. As with
Kafka, it is not looked at which partitions a member commits: who it is and of which generation is all that counts.
"""

from collections.abc import Callable

FENCED = "FENCED_INSTANCE_ID"
"""Another process has taken the member's name."""
UNKNOWN = "UNKNOWN_MEMBER_ID"
"""The member was put out: it is taken for dead, or has not polled for too long."""
OUTDATED = "ILLEGAL_GENERATION"
"""There was a rebalance of which the member has not heard yet."""


class Member:
    """What one process believes about its place in the group."""

    def __init__(self, group: "Group", name: str, wake: Callable[[], object]) -> None:
        self.name, self.wake = name, wake
        self.generation = 0
        self._group = group
        self.join()

    @property
    def refusal(self) -> str:
        """Why the group takes no commit of it now; empty if it does."""
        return self.refusal_of(self.generation)

    def refusal_of(self, generation: int) -> str:
        """Why it takes none in which it names this generation."""
        return self._group.refusal(self, generation)

    def join(self) -> None:
        """Becomes a member (again); under the name of one that is there it takes its place, without a rebalance."""
        self._group.add(self)

    def leave(self) -> None:
        """Is a member no more: the others make a new generation, of which it need not know."""
        self._group.remove(self)

    def catch_up(self) -> None:
        """Hears of the latest generation, if it is still a member."""
        if self.refusal == OUTDATED:
            self.generation = self._group.generation


class Group:
    """The group of one component, as its coordinator has it."""

    def __init__(self) -> None:
        self.generation = 0
        self._members: dict[str, Member] = {}

    def add(self, member: Member) -> None:
        """See `Member.join`."""
        if member.name not in self._members:
            self._rebalance()
        self._members[member.name] = member
        member.generation = self.generation

    def remove(self, member: Member) -> None:
        """See `Member.leave`."""
        if self._members.get(member.name) is member:
            del self._members[member.name]
            self._rebalance()

    def refusal(self, member: Member, generation: int) -> str:
        """See `Member.refusal_of`."""
        known = self._members.get(member.name)
        if known is None:
            return UNKNOWN
        if known is not member:
            return FENCED
        return "" if generation == self.generation else OUTDATED

    def _rebalance(self) -> None:
        self.generation += 1
        for member in self._members.values():
            member.wake()
