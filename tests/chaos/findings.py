"""The input and the findings of audits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NEVER: Final = 2**62
"""The time in ms at which a lost output was written."""


class RecordPlace(NamedTuple):
    """The position of a record."""

    topic: str
    partition: int
    offset: int


class Record(NamedTuple):
    """A record as a plain consumer reads it."""

    place: RecordPlace
    value: bytes
    timestamp: int
    """When the broker received it, in ms since 1970. For a dead letter, when it was sent."""


class Letter(NamedTuple):
    place: RecordPlace
    """The record that it is about, without a topic if it names none."""
    timestamp: int
    """When it was sent, in ms since 1970."""
    component: str = ""
    id: str = ""
    """The message that its tuple belongs to, if known."""


class PartlyFailed(NamedTuple):
    """Expected outcome of a message of which only some tuples end in the dead letters."""

    never: frozenset[str]
    """Its outputs that must not arrive: `word 1`, `join`."""
    letters: tuple[tuple[str, bool], ...]
    """Its dead letters: the component that gives up, and True if it names the message's id."""


class OffsetSeen(NamedTuple):
    """ZooKeeper's offset of one partition of the source topic."""

    partition: int
    offset: int
    at: int
    """When it had been read, in ms since 1970."""
    position: int | None = None
    """With exactly-once processing, the position of the spout's group in Kafka, read afterwards."""


class LostMessage(NamedTuple):
    """A message with missing outputs."""

    place: RecordPlace
    id: str
    timestamp: int
    missing: str


class Duplicate(NamedTuple):
    """A second output of one kind."""

    id: str
    at: int
    """When it was written, in ms since 1970."""
    finished: int
    """When the last of its message's outputs first arrived, or `NEVER` if one is missing."""


@dataclass(slots=True)
class ChaosFindings:
    messages: Sequence[int] = ()
    """Arrival times of the source messages, in ms since 1970."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Arrival time and time of the last output of each processed message, in ms since 1970."""
    outputs: int = 0
    """Records in the sink topics."""
    lost: list[LostMessage] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)
    corrupted: list[Record] = field(default_factory=list)
    letters: int = 0
    """Messages and records of internal topics that are in the dead letters as expected."""
    given_up: list[RecordPlace] = field(default_factory=list)
    """Messages in the dead letters that could have been processed."""
    without_letter: list[RecordPlace] = field(default_factory=list)
    """Unprocessable records that are not in the dead letters."""
    wrong_letters: list[str] = field(default_factory=list)
    """Missing or surplus dead letters of single tuples."""
    short: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Words whose last count is below the truth, with both."""
    over: int = 0
    """The sum of the excess of the last counts over the truth."""
    late: int = 0
    """Tuples that were reported as too late for their windows."""
    ahead: list[OffsetSeen] = field(default_factory=list)
    """Stored offsets that were too high.

    That is above an unfinished message, or with exactly-once processing above the spout's position
    in Kafka, which they follow.
    """
    samples: int = 0
    """Stored offsets that were checked."""
    unfinished: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partitions whose last stored offset is not the partition's end, with both."""

    def faults(self) -> list[str]:
        """Return a sentence for each fault. Empty if there are none."""
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
