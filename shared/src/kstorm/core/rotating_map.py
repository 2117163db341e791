"""A map whose entries expire by generations (Storm's `RotatingMap`).

Entries live in buckets, the newest first. Each `rotate` drops the oldest bucket and returns its
entries. Expiry costs nothing per entry, and no entry needs a timestamp.
"""

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RotatingMap(Generic[K, V]):
    """With n buckets rotated every t, an entry lives between (n-1)·t and n·t after its last `put`.

    Values must not be None.
    """

    def __init__(self, buckets: int) -> None:
        if buckets < 2:
            raise ValueError(f"a rotating map has {buckets} buckets: it needs at least 2")
        self._buckets: deque[dict[K, V]] = deque(({} for _ in range(buckets)), maxlen=buckets)

    def put(self, key: K, value: V) -> None:
        """Set an entry. Its lifetime restarts."""
        self.pop(key)
        self._buckets[0][key] = value

    def put_new(self, key: K, value: V) -> None:
        """Like `put` for a key that is known to be new: skips the search for an older entry."""
        self._buckets[0][key] = value

    def put_all_new(self, entries: Iterable[tuple[K, V]]) -> None:
        self._buckets[0].update(entries)

    def get(self, key: K) -> V | None:
        for bucket in self._buckets:
            if key in bucket:
                return bucket[key]
        return None

    def pop(self, key: K) -> V | None:
        """Remove and return an entry, or None."""
        for bucket in self._buckets:
            value = bucket.pop(key, None)
            if value is not None:
                return value
        return None

    def rotate(self) -> dict[K, V]:
        """Age every entry by one generation. Returns the expired entries."""
        expired = self._buckets.pop()
        self._buckets.appendleft({})
        return expired

    def __len__(self) -> int:
        return sum(map(len, self._buckets))

    def __contains__(self, key: object) -> bool:
        return any(key in bucket for bucket in self._buckets)
