"""A broker in memory: partition logs, committed offsets, and the tables that changelogs would be recovered from.

Whatever is here survives the crash of a process; whatever is not is lost.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

Place = tuple[str, int]
"""A topic and a partition of it."""


class Logs:
    """Records are appended and never change; an offset is a record's position."""

    def __init__(self) -> None:
        self._records: defaultdict[Place, list[bytes]] = defaultdict(list)
        self._committed: dict[Place, int] = {}
        self._tables: defaultdict[Place, dict[bytes, bytes]] = defaultdict(dict)
        self._readers: dict[Place, Callable[[], object]] = {}

    def append(self, place: Place, value: bytes) -> int:
        """Adds a record and returns its offset."""
        records = self._records[place]
        records.append(value)
        if place in self._readers:
            self._readers[place]()
        return len(records) - 1

    def watch(self, place: Place, wake: Callable[[], object]) -> None:
        """From now on `wake` is called, and nobody else, when a partition grows."""
        self._readers[place] = wake

    def records(self, place: Place) -> list[bytes]:
        """All records of a partition: the log itself, which goes on to grow."""
        return self._records[place]

    def topic(self, topic: str) -> list[bytes]:
        """All records of a topic, partition by partition."""
        places = sorted(place for place in self._records if place[0] == topic)
        return [record for place in places for record in self._records[place]]

    def committed(self, place: Place) -> int:
        """The offset from which a restarted consumer goes on; 0 if none was ever committed."""
        return self._committed.get(place, 0)

    def commit(self, offsets: Iterable[tuple[Place, int]]) -> None:
        """Sets where restarted consumers go on."""
        self._committed.update(offsets)

    def table(self, place: Place) -> dict[bytes, bytes]:
        """The latest value of each key of a changelog."""
        return self._tables[place]

    def write(self, place: Place, key: bytes, value: bytes | None) -> None:
        """Writes one key of a changelog; None deletes it."""
        table = self._tables[place]
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
