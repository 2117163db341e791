"""Records to produce.

With exactly-once processing, sink records are kept in columns, because one epoch may have 100,000
of them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any, Final, overload

from msgspec import Struct

Headers = Sequence[tuple[str, str | bytes | None]]
"""Headers of a sink's record: names and values."""

BY_KEY: Final = -1
"""The producer chooses the partition."""


# No garbage collection: an epoch may hold a million of these, and none is part of a cycle.
class OutgoingRecord(Struct, frozen=True, gc=False):
    topic: str
    partition: int
    """-1 lets the producer choose it by the key."""
    value: Any
    """Bytes. A sink's record may also have a string, which is sent as UTF-8, or None."""
    key: str | bytes | None = None
    headers: Headers | None = None
    task: int = 0
    """Id of the task whose sink wrote the record, with exactly-once processing. 0 for a frame or a
    dead letter."""


class SinkRecords(Struct, frozen=True, gc=False):
    """Records that the sink of one task wrote together.

    Raises `ValueError` if the columns differ in length.
    """

    topic: str
    keys: Sequence[str | bytes | None]
    values: Sequence[str | bytes | None]
    headers: Sequence[Headers | None] | None
    """The headers of each record, or None if no record has headers."""
    task: int

    def __post_init__(self) -> None:
        headers = self.values if self.headers is None else self.headers
        if not len(self.keys) == len(self.values) == len(headers):
            raise ValueError(
                f"{len(self.keys)} keys, {len(self.values)} values, {len(headers)} headers"
            )

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[OutgoingRecord]:
        count = len(self)
        topic, partition, task = (
            repeat(self.topic, count),
            repeat(BY_KEY, count),
            repeat(self.task, count),
        )
        headers = repeat(None, count) if self.headers is None else self.headers
        return map(OutgoingRecord, topic, partition, self.values, self.keys, headers, task)

    def at(self, row: int) -> OutgoingRecord:
        headers = None if self.headers is None else self.headers[row]
        return OutgoingRecord(
            self.topic, BY_KEY, self.values[row], self.keys[row], headers, self.task
        )


Part = OutgoingRecord | SinkRecords


class EpochRecords(Sequence[OutgoingRecord]):
    """All records of an epoch, in send order."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = list(parts)
        sizes = (len(part) if isinstance(part, SinkRecords) else 1 for part in self.parts)
        self._ends = list(accumulate(sizes))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[OutgoingRecord]:
        for part in self.parts:
            if isinstance(part, SinkRecords):
                yield from part
            else:
                yield part

    @overload
    def __getitem__(self, number: int) -> OutgoingRecord: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[OutgoingRecord]: ...
    def __getitem__(self, number: int | slice) -> OutgoingRecord | Sequence[OutgoingRecord]:
        if isinstance(number, slice):
            return list(self)[number]
        number = range(len(self))[number]  # also handles negative numbers and the bounds
        place = bisect_right(self._ends, number)
        part = self.parts[place]
        # The row is negative: counted from the end of the part.
        return part.at(number - self._ends[place]) if isinstance(part, SinkRecords) else part
