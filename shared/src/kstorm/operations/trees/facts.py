"""Facts about a topology, in addition to its trees, that explain why a message is unfinished."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from kstorm.introspection.outline import RetryPolicy
from kstorm.kafka.finished_ranges import FinishedRange
from kstorm.operations.trees.joined import TupleLetter


class MessageId(NamedTuple):
    """The coordinates of a message."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class LetterFact(NamedTuple):
    """A dead letter of the message."""

    number: int
    reason: str
    kind: str = ""
    """Empty if unknown."""


class MessageFacts(Struct, frozen=True, kw_only=True):
    """Known facts. An unknown fact has its default."""

    now: int
    """Unix time in ms."""
    timeout_ms: float
    """Milliseconds after which a tree times out, or infinity if it never does."""
    tasks: Mapping[int, str] = {}
    """Names of tasks by topology-wide id: `split:5`."""
    exactly_once: bool = False
    retries: RetryPolicy | None = None
    """None if the spout has a custom retry manager, or no retries."""
    stored: int | None = None
    """Offset stored in ZooKeeper. Every message below it is finished."""
    position: int | None = None
    """With exactly once: the tuples of every message below this offset are committed."""
    emitted_to: int | None = None
    """Highest offset of the partition that is known to have been emitted."""
    holder: str | None = None
    """Process that holds the partition's lock, or None if it is free or was not looked up."""
    deactivated: bool = False
    committed: Mapping[tuple[str, int], int] = {}
    """Committed offsets of bolts and ackers by topic and partition."""
    ends: Mapping[tuple[str, int], int] = {}
    owners: Mapping[tuple[str, int], str] = {}
    """Process that owns the task, by topic and partition."""
    finished: Sequence[FinishedRange] = ()
    """Finished ranges that include the message."""
    letters: Sequence[LetterFact] = ()
    """Dead letters of the message, in order."""
    tuple_letters: Sequence[TupleLetter] = ()
    """Dead letters of tuples that descend from the message, in order."""
