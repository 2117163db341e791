"""Session windows: the tuples of a key between two pauses (not in Storm; as in Flink and Kafka
Streams).

Two tuples of a key belong to one session if they are at most a gap apart. So a tuple starts a
session, extends one at either end, or merges two. A session is complete when every tuple still to
come is later than its last tuple by more than the gap. This holds when the watermark reaches the
last tuple's time plus the gap. Tuples at or before the watermark are late, so the sessions do not
depend on the order in which tuples arrive.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from kstorm.errors import FrameError
from kstorm.topology import Fields, KeyValueState, Tuple
from kstorm.topology.event_time import NEVER
from kstorm.topology.keys import list_text
from kstorm.windows.panes import Fold, PaneWindow
from kstorm.windows.sortable_numbers import DIGITS, decode_number, encode_number
from kstorm.windows.window import TupleWindow
from kstorm.windows.window_store import WindowStore, last_key

# by key: the key's values, the time of its next check, its sessions by time
_OPEN: Final = "w/k/"
# by the time of the check and the key: None
_LOOK: Final = "w/e/"
_AT_ONCE: Final = 500

Span = list[Any]
"""An open session: the times of its first and last tuple, and its value."""


class ClosedSession(Struct, frozen=True):
    """A complete session."""

    text: str
    key: list[Any]
    first: int
    last: int
    value: Any


class OpenSessions:
    """The incomplete sessions of a task, in its state.

    Each key has one scheduled check, no later than the completion of its first session. A tuple
    that extends a session does not move the check. When the check is due, it is scheduled again. So
    a tuple costs one read and one write.
    """

    def __init__(self, state: KeyValueState, gap: int, combine: Callable[[Any, Any], Any]) -> None:
        self._state, self.gap, self._combine = state, gap, combine
        self.front = NEVER
        """No checks are scheduled up to this time."""

    def add(self, text: str, key: list[Any], time: int, value: Any) -> None:
        """Add a tuple's time and value to the sessions of its key."""
        found: list[Any] | None = self._state.get(_OPEN + text)
        _, look, spans = found if found is not None else (key, None, [])
        spans = self._with(spans, [time, time, value])
        complete = spans[0][1] + self.gap
        if look is None or complete < look:
            if look is not None:
                self._state.discard(_look(look, text))
            self._state.put(_look(complete, text), None)
            look = complete
        self._state.put(_OPEN + text, [key, look, spans])

    def complete(self, time: int) -> Iterator[ClosedSession]:
        """Yield the sessions that are complete at the watermark `time`. Sessions of one key come in
        order of time.

        A session is removed from the state when the next one is requested.
        """
        behind = _look(self.front)
        while True:
            looks = self._looks(behind, time)
            for look, text in looks:
                yield from self._complete_of(look, text, time)
            if len(looks) < _AT_ONCE:
                self.front = max(self.front, time)
                return
            behind = _look(*looks[-1])

    def _looks(self, behind: str, time: int) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for key, _ in self._state.range(behind + "\x00", _look(time + 1)):
            found.append(
                (decode_number(key[len(_LOOK) : len(_LOOK) + DIGITS]), key[len(_LOOK) + DIGITS :])
            )
            if len(found) == _AT_ONCE:
                break
        return found

    def _complete_of(self, look: int, text: str, time: int) -> Iterator[ClosedSession]:
        key, _, spans = self._state.get(_OPEN + text)
        while spans and spans[0][1] + self.gap <= time:
            yield ClosedSession(text, key, *spans[0])
            spans = spans[1:]
            if spans:
                self._state.put(_OPEN + text, [key, look, spans])
        self._state.discard(_look(look, text))
        if spans:
            again = spans[0][1] + self.gap
            self._state.put(_look(again, text), None)
            self._state.put(_OPEN + text, [key, again, spans])
        else:
            self._state.discard(_OPEN + text)

    def _with(self, spans: list[Span], new: Span) -> list[Span]:
        """Return the sessions with one more. It is merged with every session within the gap."""
        before = [span for span in spans if span[1] + self.gap < new[0]]
        behind = [span for span in spans if new[1] + self.gap < span[0]]
        first, last, value = new
        for span in spans[len(before) : len(spans) - len(behind)]:
            first, last, value = (
                min(first, span[0]),
                max(last, span[1]),
                self._combine(span[2], value),
            )
        return [*before, [first, last, value], *behind]


class SessionAggregateManager:
    """Replaces a `WindowManager` and stores one value per session. Times are Unix milliseconds."""

    def __init__(
        self, state: KeyValueState, gap: int, fold: Fold, combine: Callable[[Any, Any], Any]
    ) -> None:
        self._sessions, self._fold = OpenSessions(state, gap, combine), fold
        self._ended = NEVER

    def time_for(self, now: int) -> int:
        return max(now, self._ended + 1)

    def is_full_with(self, more: int) -> bool:
        return False

    def add(self, time: int, tuple: Tuple) -> None:
        text, key, value = self._fold(tuple)
        self._sessions.add(text, list(key), time, value)

    def due(self, time: int) -> Iterator[Any]:
        self._ended = max(self._ended, time)
        for session in self._sessions.complete(time):
            yield PaneWindow([(session.key, session.value)], session.first, session.last)

    def passed(self, time: int) -> int:
        # The last tuple of an open session is later than this.
        return time - self._sessions.gap

    def stored(self) -> list[Any]:
        return [self._ended, self._sessions.front]

    def restore(self, stored: list[Any]) -> None:
        self._ended, self._sessions.front = stored


class SessionManager(SessionAggregateManager):
    """Stores the tuples of sessions. Merging two sessions moves no tuples, as they are ordered by
    key and time."""

    def __init__(self, state: KeyValueState, kept: WindowStore, gap: int, key: Fields) -> None:
        super().__init__(state, gap, _no_value, _nothing)
        self._kept, self._key = kept, key
        self._number = 0

    def add(self, time: int, tuple: Tuple) -> None:
        """Store a tuple. Raises `FrameError` if it lacks a field of the key."""
        try:
            key = [tuple[name] for name in self._key]
        except KeyError as error:
            raise FrameError(
                f"it belongs to no session: {error.args[0]}; the sessions' key is {list(self._key)}"
            ) from None
        text = list_text(key)
        self._number += 1
        self._kept.add(time, self._number, tuple, text + "\x00")
        self._sessions.add(text, key, time, None)

    def due(self, time: int) -> Iterator[TupleWindow]:
        self._ended = max(self._ended, time)
        for session in self._sessions.complete(time):
            group = session.text + "\x00"
            behind, before = last_key(session.first - 1, group), last_key(session.last, group)
            window = self._window(session, behind, before)
            yield window
            window.pass_by()
            self._kept.forget(behind, before)

    def stored(self) -> list[Any]:
        return [*super().stored(), self._number]

    def restore(self, stored: list[Any]) -> None:
        *others, self._number = stored
        super().restore(others)

    def _window(self, session: ClosedSession, behind: str, before: str) -> TupleWindow:
        return TupleWindow(
            lambda: self._kept.tuples(behind, before),
            start_timestamp=session.first,
            end_timestamp=session.last,
            key=session.key,
        )


def _look(time: int, text: str = "") -> str:
    return f"{_LOOK}{encode_number(time)}{text}"


def _no_value(tuple: Tuple) -> Any:
    raise NotImplementedError


def _nothing(one: Any, other: Any) -> None:
    """Combine the values of sessions that store tuples. They have none."""
