"""Checks that the audits of all topologies share: dead letters and offsets."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Protocol

from tests.chaos.findings import (
    ChaosFindings,
    Letter,
    OffsetSeen,
    PartlyFailed,
    Record,
    RecordPlace,
)


class Identified(Protocol):
    """Messages by number."""

    findings: ChaosFindings
    ids: list[str]

    def number_of(self, id: str) -> int | None:
        """Return the number of the message with an id, or None."""


def check_letters(
    messages: Identified,
    source: Sequence[Record],
    letters: Iterable[Letter],
    poison: Collection[RecordPlace],
    parted: Mapping[RecordPlace, PartlyFailed],
) -> None:
    """Check dead letters of single tuples.

    Every required tuple of a message that ends there in part must be there once. Other messages
    must have none.
    """
    found = messages.findings
    expected = {
        number: [
            (who, messages.ids[number] if tells else "")
            for who, tells in parted[record.place].letters
        ]
        for number, record in enumerate(source)
        if record.place in parted
    }
    due = Counter(chain.from_iterable(expected.values()))
    places = {record.place for record in source}
    there: Counter[tuple[str, str]] = Counter()
    for letter in letters:
        number = messages.number_of(letter.id)
        if letter.place in poison or letter.place in places:
            continue
        if number is None or number in expected:
            there[letter.component, letter.id] += 1
        else:
            found.given_up.append(source[number].place)
    found.letters += sum(all(there[one] for one in some) for some in expected.values())
    found.wrong_letters = [
        f"{there[one]} in place of {due[one]} of {one[0]!r}"
        + (f" for {one[1]!r}" if one[1] else "")
        for one in sorted(due | there)
        if there[one] != due[one]
    ]


def check_offsets(
    found: ChaosFindings,
    finished: Mapping[RecordPlace, int],
    offsets: Iterable[OffsetSeen],
    ends: Mapping[int, int] | None,
) -> None:
    """Check that no stored offset was ever above an unfinished message, and the last is the end.

    With exactly-once processing, the spout's position in Kafka counts instead. It is in the same
    transaction as the emitted tuples. A new owner starts there, and does not wait for tuples in
    flight. ZooKeeper's offset is never ahead of it.
    """
    by_partition: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, at in finished.items():
        by_partition[place.partition].append((place.offset, at))
    # By partition: offset, and when all messages up to it were finished.
    all_below: dict[int, list[tuple[int, int]]] = {}
    for partition, places in by_partition.items():
        latest, steps = 0, []
        for offset, at in sorted(places):
            latest = max(latest, at)
            steps.append((offset, latest))
        all_below[partition] = steps
    stored: dict[int, int] = {}
    for seen in offsets:
        found.samples += 1
        stored[seen.partition] = seen.offset
        if seen.position is not None:
            # A position below 0 means none yet: the start offset is stored first.
            if seen.offset > max(0, seen.position):
                found.ahead.append(seen)
            continue
        steps = all_below.get(seen.partition, [])
        below = bisect_left(steps, seen.offset, key=itemgetter(0))
        if below and steps[below - 1][1] > seen.at:
            found.ahead.append(seen)
    found.unfinished = {
        partition: (stored.get(partition, 0), end)
        for partition, end in (ends or {}).items()
        if stored.get(partition, 0) != end
    }
