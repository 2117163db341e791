"""One reader of replay requests for the spout tasks that a process opens together.

A task that is opened after the reader has reached the end gets another one: a request that seems to
be open there may have ended since.
"""

import threading
from collections.abc import Callable, Sequence

from kstorm.kafka.ports import ReplayRequestReader

Pair = tuple[bytes | None, bytes | None]


class SharedReplayRequests:
    """Lends readers. `close` of a lent reader may be called on any thread, everything else on the
    event loop."""

    def __init__(self, open_reader: Callable[[], ReplayRequestReader]) -> None:
        self._open = open_reader
        self._newest: _Shared | None = None

    def lend(self) -> ReplayRequestReader:
        shared = self._newest
        if shared is None or (user := shared.lend()) is None:
            shared = self._newest = _Shared(self._open())
            user = shared.lend()
            assert user is not None, "nothing has been read yet"
        return user


class _Shared:
    def __init__(self, reader: ReplayRequestReader) -> None:
        self.reader = reader
        self._before_the_end: list[Pair] = []
        self._forgets = False
        self._users: list[_LentRequests] = []
        self._is_open, self._lock = True, threading.Lock()

    def lend(self) -> "_LentRequests | None":
        """Return a user's reader, or None if it would begin too late."""
        with self._lock:
            if self._forgets or not self._is_open:
                return None
            user = _LentRequests(self, self._before_the_end.copy())
            self._users.append(user)
        if len(self._users) > 1:
            self.reader.ask_end()  # requests may have ended since the reader was opened
        return user

    def fetch(self) -> None:
        """Hand new requests to all users."""
        found = self.reader.read()
        self._forgets = self._forgets or self.reader.at_end
        self._before_the_end = [] if self._forgets else [*self._before_the_end, *found]
        for user in self._users:
            user.unread += found

    def give_back(self, user: "_LentRequests") -> None:
        """Close the reader after its last user."""
        with self._lock:
            if user in self._users:
                self._users.remove(user)
            is_last, self._is_open = self._is_open and not self._users, bool(self._users)
        if is_last:
            self.reader.close()


class _LentRequests:
    """A `ReplayRequestReader` of one task."""

    def __init__(self, shared: _Shared, unread: list[Pair]) -> None:
        self._shared, self.unread = shared, unread
        self.at_end = False

    def read(self) -> Sequence[Pair]:
        self._shared.fetch()
        self.at_end = self._shared.reader.at_end
        found, self.unread = self.unread, []
        return found

    def ask_end(self) -> None:
        self._shared.reader.ask_end()
        self.at_end = False

    def close(self) -> None:
        self._shared.give_back(self)
