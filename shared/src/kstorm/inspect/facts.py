"""What is known of a topology beside its trees, when it is asked why a message is not done."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from kstorm.kafka.finished import FinishedRange


class Message(NamedTuple):
    """The coordinates of a message."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Retries(NamedTuple):
    """When a message that failed is emitted again, as `ExponentialBackoffRetryManager` has it."""

    initial_ms: float
    multiplier: float
    most_ms: float
    limit: int
    """-1: for ever."""

    def delay(self, failures: int) -> float:
        """Milliseconds from so many failures to the next attempt."""
        try:
            return min(self.initial_ms * self.multiplier ** (failures - 1), self.most_ms)
        except OverflowError:
            return self.most_ms


class Letter(NamedTuple):
    """A dead letter of the message."""

    number: int
    reason: str
    kind: str = ""
    """Empty if it is not known."""


class Facts(Struct, frozen=True, kw_only=True):
    """What is not known is left out."""

    now: int
    """Unix time in ms."""
    timeout_ms: float
    """After which a tree fails; infinite if it never does."""
    tasks: Mapping[int, str] = {}
    """Names of tasks by their topology-wide ids: `split:5`."""
    exactly_once: bool = False
    retries: Retries | None = None
    """None: the user's own policy, or none."""
    stored: int | None = None
    """The offset in ZooKeeper: all below it is done."""
    position: int | None = None
    """Exactly once, up to where all is emitted for good."""
    emitted_to: int | None = None
    """The highest offset of the partition that is known to have been emitted."""
    holder: str | None = None
    """Who holds the partition's lock; None if nobody does, or that was not asked."""
    deactivated: bool = False
    committed: Mapping[tuple[str, int], int] = {}
    """By topic and partition of bolts and ackers, up to where their groups have committed."""
    ends: Mapping[tuple[str, int], int] = {}
    owners: Mapping[tuple[str, int], str] = {}
    """By the same, which process has the task."""
    finished: Sequence[FinishedRange] = ()
    """Those that have the message."""
    letters: Sequence[Letter] = ()
    """Of the message, in order."""
