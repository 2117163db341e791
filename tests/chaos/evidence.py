"""The input of an audit: everything that plain clients have read after a run."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.findings import Letter, OffsetSeen, PartlyFailed, Record, RecordPlace


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one run."""

    source: Sequence[Record]
    """All records of the source topic."""
    records: Callable[[str], Iterator[Record]]
    """Reads another topic, one partition after the other."""
    letters: Sequence[Letter] = ()
    poison: Collection[RecordPlace] = ()
    """Places that dead letters must name."""
    parted: Mapping[RecordPlace, PartlyFailed] = field(default_factory=dict)
    """Messages that end in the dead letters in part, by place."""
    last: Collection[str] = ()
    """Ids of the messages that were written when all others were finished."""
    offsets: Sequence[OffsetSeen] = ()
    ends: Mapping[int, int] = field(default_factory=dict)
