"""What audits read, and what they find."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NEVER: Final = 2**62
"""The time at which what is lost was written, in ms."""


class RecordPlace(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int


class Record(NamedTuple):
    """A record as a plain consumer reads it."""

    place: RecordPlace
    value: bytes
    timestamp: int
    """When the broker got it, in ms since 1970; of a dead letter, when it was sent."""


class Letter(NamedTuple):
    """A dead letter."""

    place: RecordPlace
    """Of the record that it is about; without a topic if it names none."""
    timestamp: int
    """When it was sent, in ms since 1970."""
    component: str = ""
    id: str = ""
    """The message that its tuple is of, if it tells."""


class Parted(NamedTuple):
    """What has to become of a message of which some tuples end in the dead letters, and the others do not."""

    never: frozenset[str]
    """Its outputs that must not come: `word 1`, `join`."""
    letters: tuple[tuple[str, bool], ...]
    """The dead letters of its tuples: who gives each up, and whether it tells the message's id."""


class OffsetSeen(NamedTuple):
    """What ZooKeeper had of one partition of the source topic."""

    partition: int
    offset: int
    at: int
    """When it had been read, in ms since 1970."""
    position: int | None = None
    """Exactly once: the position that the spout's group had in Kafka afterwards."""


class Lost(NamedTuple):
    """A message of which something is missing."""

    place: RecordPlace
    id: str
    timestamp: int
    missing: str


class Duplicate(NamedTuple):
    """An output beyond the one that there should be."""

    id: str
    at: int
    """When it was written, in ms since 1970."""
    finished: int
    """When the last of its message's outputs was there for the first time; `NEVER` if one is missing."""


@dataclass(slots=True)
class ChaosFindings:
    messages: Sequence[int] = ()
    """When each message came into the source topic, in ms since 1970."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Of each message that was processed to its end: when it came, and when the last of its outputs was there, in ms since 1970."""
    outputs: int = 0
    """Records in the sink topics."""
    lost: list[Lost] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)
    corrupted: list[Record] = field(default_factory=list)
    letters: int = 0
    """Messages and records of internal topics in the dead letters, as they should be."""
    given_up: list[RecordPlace] = field(default_factory=list)
    """Messages in the dead letters that could have been processed."""
    without_letter: list[RecordPlace] = field(default_factory=list)
    """What could not be processed and is not in the dead letters."""
    wrong_letters: list[str] = field(default_factory=list)
    """Dead letters of single tuples that are missing, or too many."""
    short: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Words whose last count is below the truth: both."""
    over: int = 0
    """By how much the last counts exceed the truth, in all."""
    late: int = 0
    """Tuples that came too late for their windows, and are told to be."""
    ahead: list[OffsetSeen] = field(default_factory=list)
    """Stored offsets that were too high: above an unfinished message; exactly once, above the spout's position in Kafka, which they
    follow."""
    samples: int = 0
    """Stored offsets that were looked at."""
    unfinished: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partitions whose last stored offset is not the partition's end: both."""

    def faults(self) -> list[str]:
        """What is wrong, a sentence each; empty if all is well."""
        found = []
        for what, some in (
            ("messages are lost", self.lost),
            ("outputs are corrupted", self.corrupted),
            ("messages were given up that could be processed", self.given_up),
            ("records that cannot be processed are not in the dead letters", self.without_letter),
            ("dead letters of tuples are not as they should be", self.wrong_letters),
            ("words are counted short (last count, truth)", list(self.short.items())),
            ("stored offsets were too high", self.ahead),
            (
                "partitions do not end with everything finished (stored, end)",
                list(self.unfinished.items()),
            ),
        ):
            if some:
                found.append(f"{len(some)} {what}: {', '.join(map(str, some[:3]))}")
        return found
