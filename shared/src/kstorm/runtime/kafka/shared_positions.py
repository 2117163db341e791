"""One reader of committed positions for all spout tasks of a process."""

import threading
from collections.abc import Callable

from kstorm.errors import KstormError
from kstorm.kafka.ports import Partition, PositionReader


class SharedPositions:
    """Lends one reader, which is open while it is used. `close` of a lent reader may be called on
    any thread, everything else on the event loop."""

    def __init__(self, open_reader: Callable[[], PositionReader]) -> None:
        self._open = open_reader
        self._reader: PositionReader | None = None
        self._users: set[_LentPositions] = set()
        self._lock = threading.Lock()

    def lend(self) -> PositionReader:
        with self._lock:
            self._reader = self._reader or self._open()
            user = _LentPositions(self, self._reader)
            self._users.add(user)
        return user

    def give_back(self, user: "_LentPositions") -> None:
        """Close the reader after its last user."""
        with self._lock:
            self._users.discard(user)
            last = None if self._users else self._reader
            if last is not None:
                self._reader = None
        if last is not None:
            last.close()


class _LentPositions:
    """A `PositionReader` of one task. A partition has one task, so look-ups never meet."""

    def __init__(self, owner: SharedPositions, reader: PositionReader) -> None:
        self._owner, self._reader = owner, reader

    def position(self, partition: Partition) -> int | None:
        return self._reader.position(partition)

    def problem(self) -> KstormError | None:
        return self._reader.problem()

    def close(self) -> None:
        self._owner.give_back(self)
