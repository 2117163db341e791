"""A broker in memory: partition logs, committed offsets, changelogs.

Whatever is here survives the crash of a process; whatever is not is lost.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

Place = tuple[str, int]
"""A topic and a partition of it."""

Change = tuple[bytes, bytes | None]
"""A record of a changelog: a key and its value; None deletes it."""


class Logs:
    """Records are appended and never change; an offset is a record's position."""

    def __init__(self) -> None:
        self._records: defaultdict[Place, list[bytes]] = defaultdict(list)
        self._committed: dict[Place, int] = {}
        self._changes: defaultdict[Place, list[Change]] = defaultdict(list)
        self._readers: defaultdict[Place, dict[object, Callable[[], object]]] = defaultdict(dict)
        self.stalled: set[Place] = set()
        """Partitions that cannot be read or written at the moment."""

    def append(self, place: Place, value: bytes) -> int:
        """Adds a record and returns its offset."""
        records = self._records[place]
        records.append(value)
        for wake in self._readers[place].values():
            wake()
        return len(records) - 1

    def watch(self, place: Place, reader: object, wake: Callable[[], object]) -> None:
        """From now on `wake` is called whenever a partition grows."""
        self._readers[place][reader] = wake

    def unwatch(self, place: Place, reader: object) -> None:
        """From now on it is not."""
        self._readers[place].pop(reader, None)

    def records(self, place: Place) -> list[bytes]:
        """All records of a partition: the log itself, which goes on to grow."""
        return self._records[place]

    def places(self) -> list[Place]:
        """Every partition that has been read or written, in order."""
        return sorted(self._records)

    def topic(self, topic: str) -> list[bytes]:
        """All records of a topic, partition by partition."""
        return [record for place in self.places() if place[0] == topic for record in self._records[place]]

    def committed(self, place: Place) -> int:
        """The offset from which a restarted consumer goes on; 0 if none was ever committed."""
        return self._committed.get(place, 0)

    def commit(self, offsets: Iterable[tuple[Place, int]]) -> None:
        """Sets where restarted consumers go on."""
        self._committed.update(offsets)

    def changes(self, place: Place) -> list[Change]:
        """All records of a changelog's partition."""
        return self._changes[place]

    def change(self, place: Place, key: bytes, value: bytes | None) -> int:
        """Writes one key of a changelog; returns the record's offset."""
        changes = self._changes[place]
        changes.append((key, value))
        return len(changes) - 1
