"""A simulated consumer group: its members, its generation, and the commits that it accepts.

Members are static, as in the services. A process that returns under its name takes its
predecessor's place without a rebalance. Any other join or leave starts a new generation, which the
members learn step by step. Like Kafka, the group does not check which partitions a member commits.
Only the member and its generation count.
"""

from collections.abc import Callable

FENCED = "FENCED_INSTANCE_ID"
"""Another process has taken the member's name."""
UNKNOWN = "UNKNOWN_MEMBER_ID"
"""The member was removed: its session expired, or it has not polled for too long."""
OUTDATED = "ILLEGAL_GENERATION"
"""The member has not yet learned of a rebalance."""


class GroupMember:
    """One process's view of its group membership."""

    def __init__(self, group: "ConsumerGroup", name: str, wake: Callable[[], object]) -> None:
        self.name, self.wake = name, wake
        self.generation = 0
        self._group = group
        self.join()

    @property
    def refusal(self) -> str:
        """Reason why the group refuses its commits now, or ""."""
        return self._group.refusal(self, self.generation)

    @property
    def outdated(self) -> bool:
        """True if it has not yet learned of a rebalance."""
        return self.generation != self._group.generation and self.refusal == OUTDATED

    def refusal_of(self, generation: int) -> str:
        """Return the reason why the group refuses a commit with this generation, or ""."""
        return self._group.refusal(self, generation)

    def join(self) -> None:
        """Join the group, or rejoin it. Under the name of a current member, take its place without
        a rebalance."""
        self._group.add(self)

    def leave(self) -> None:
        """Leave the group. The remaining members start a new generation, of which this one need not
        learn."""
        self._group.remove(self)

    def catch_up(self) -> None:
        """Adopt the latest generation, if still a member."""
        if self.outdated:
            self.generation = self._group.generation


class ConsumerGroup:
    """The group of one component, as its coordinator sees it."""

    def __init__(self) -> None:
        self.generation = 0
        self._members: dict[str, GroupMember] = {}

    def add(self, member: GroupMember) -> None:
        if member.name not in self._members:
            self._rebalance()
        self._members[member.name] = member
        member.generation = self.generation

    def remove(self, member: GroupMember) -> None:
        if self._members.get(member.name) is member:
            del self._members[member.name]
            self._rebalance()

    def refusal(self, member: GroupMember, generation: int) -> str:
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
