"""What an audit is given: all that plain clients have read when a run is over."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.findings import Letter, OffsetSeen, Parted, Record, RecordPlace


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one run."""

    source: Sequence[Record]
    """All of the source topic."""
    records: Callable[[str], Iterator[Record]]
    """Those of another topic, one partition after the other."""
    letters: Sequence[Letter] = ()
    poison: Collection[RecordPlace] = ()
    """Places that dead letters must name."""
    parted: Mapping[RecordPlace, Parted] = field(default_factory=dict)
    """Where messages are that end there in part."""
    last: Collection[str] = ()
    """The ids of messages that were written when all others were finished."""
    offsets: Sequence[OffsetSeen] = ()
    ends: Mapping[int, int] = field(default_factory=dict)
