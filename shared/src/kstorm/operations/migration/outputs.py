"""Compare the records that two systems wrote for the same input.

Records belong together if they have the same key. The order of records does not matter.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal

import msgspec

Kind = Literal["missing", "extra", "differs"]
Record = tuple[bytes | None, bytes | None]
"""Key and value."""

_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Difference:
    """One key whose records are not the same."""

    key: str | None
    kind: Kind
    """`missing`: only Storm wrote the key. `extra`: only kstorm did. `differs`: both did."""
    storm: int
    """Number of Storm's records with the key."""
    kstorm: int
    unequal: int
    """Number of records that the other one has no equal record for."""


@dataclass(slots=True)
class Output:
    """The records of one topic."""

    records: int = 0
    keys: dict[bytes | None, Counter[bytes]] = field(default_factory=dict)
    """Digests of values by key, and how often each occurs."""


def collect(
    records: Iterable[Record],
    *,
    wanted: Callable[[bytes], bool] = lambda key: True,
    only_last: bool = False,
    once: bool = False,
    as_json: bool = False,
) -> Output:
    """Collect the records whose key is `wanted`.

    `only_last` keeps only the last value of a key. With `once`, equal records count once. With
    `as_json`, values are equal if they are the same JSON, however it is written.
    """
    found = Output()
    for key, value in records:
        if not wanted(key or b""):
            continue
        found.records += 1
        digest = _digest(value, as_json)
        counts = found.keys.setdefault(key, Counter())
        if only_last:
            counts.clear()
        counts[digest] = 1 if once else counts[digest] + 1
    return found


def differences(storm: Output, kstorm: Output) -> Iterator[Difference]:
    """Yield the keys whose records are not the same, in order."""
    empty = Counter[bytes]()
    for key in sorted(storm.keys.keys() | kstorm.keys.keys(), key=lambda key: key or b""):
        ours, theirs = kstorm.keys.get(key, empty), storm.keys.get(key, empty)
        if ours == theirs:
            continue
        kind: Kind = "missing" if not ours else "extra" if not theirs else "differs"
        unequal = (ours - theirs).total() + (theirs - ours).total()
        name = None if key is None else key.decode(errors="replace")
        yield Difference(name, kind, theirs.total(), ours.total(), unequal)


def count_kinds(found: Sequence[Difference]) -> dict[str, int]:
    """Return the number of keys by kind of difference."""
    counts = Counter(each.kind for each in found)
    kinds: Sequence[Kind] = ("missing", "extra", "differs")
    return {kind: counts[kind] for kind in kinds}


def _digest(value: bytes | None, as_json: bool) -> bytes:
    if value is None:
        return b""
    if as_json:
        with suppress(msgspec.DecodeError):  # compared as it is
            value = msgspec.json.encode(msgspec.json.decode(value), order="sorted")
    return blake2b(value, digest_size=_DIGEST_BYTES).digest()
