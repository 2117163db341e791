"""Sessions: of each key the tuples between two pauses (not in Storm; Flink's and Kafka Streams' session windows).

Two tuples of a key that are a gap apart or less are of one session. So a tuple begins one, makes one longer at either end, or makes
one of two. A session is complete when all that comes is later than its last tuple by more than the gap: at the watermark that is
the last tuple's time and the gap. As every tuple at the watermark or before is late, what sessions there are does not hang on the
order in which their tuples come.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from kstorm.errors import FrameError
from kstorm.topology import Fields, KeyValueState, Tuple
from kstorm.windows.kept import Kept, last_key
from kstorm.windows.ordering import DIGITS, number_of, text_of
from kstorm.windows.panes import Fold, PaneWindow
from kstorm.windows.watermark import NEVER
from kstorm.windows.window import TupleWindow

_OPEN: Final = "w/k/"  # by key: its values, when it is looked at next, its sessions by time
_LOOK: Final = "w/e/"  # by that time and key: nothing
_AT_ONCE: Final = 500

Span = list[Any]
"""Of an open session: the times of its first and its last tuple, and its value."""


class Session(Struct, frozen=True):
    """One that is complete."""

    text: str
    key: list[Any]
    first: int
    last: int
    value: Any


class OpenSessions:
    """The sessions of a task that are not complete, in its state.

    There is one look for each key, no later than its next session is complete. A tuple that makes a session longer does not move
    it: when its time has come, the key is looked at again later. So a tuple costs one value read and one written.
    """

    def __init__(self, state: KeyValueState, gap: int, combine: Callable[[Any, Any], Any]) -> None:
        self._state, self._gap, self._combine = state, gap, combine
        self.front = NEVER
        """Up to this time there are no looks any more."""

    def add(self, text: str, key: list[Any], time: int, value: Any) -> None:
        """A tuple's time and value."""
        found: list[Any] | None = self._state.get(_OPEN + text)
        _, look, spans = found if found is not None else (key, None, [])
        spans = self._with(spans, [time, time, value])
        complete = spans[0][1] + self._gap
        if look is None or complete < look:
            if look is not None:
                self._state.discard(_look(look, text))
            self._state.put(_look(complete, text), None)
            look = complete
        self._state.put(_OPEN + text, [key, look, spans])

    def complete(self, time: int) -> Iterator[Session]:
        """Those that are complete at this watermark, each of which is open no more when the next is asked for. Sessions of one key
        come by their time."""
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
                (number_of(key[len(_LOOK) : len(_LOOK) + DIGITS]), key[len(_LOOK) + DIGITS :])
            )
            if len(found) == _AT_ONCE:
                break
        return found

    def _complete_of(self, look: int, text: str, time: int) -> Iterator[Session]:
        key, _, spans = self._state.get(_OPEN + text)
        while spans and spans[0][1] + self._gap <= time:
            yield Session(text, key, *spans[0])
            spans = spans[1:]
            if spans:
                self._state.put(_OPEN + text, [key, look, spans])
        self._state.discard(_look(look, text))
        if spans:
            again = spans[0][1] + self._gap
            self._state.put(_look(again, text), None)
            self._state.put(_OPEN + text, [key, again, spans])
        else:
            self._state.discard(_OPEN + text)

    def _with(self, spans: list[Span], new: Span) -> list[Span]:
        """The same sessions with one more, which may be part of two of them."""
        before = [span for span in spans if span[1] + self._gap < new[0]]
        behind = [span for span in spans if new[1] + self._gap < span[0]]
        first, last, value = new
        for span in spans[len(before) : len(spans) - len(behind)]:
            first, last, value = (
                min(first, span[0]),
                max(last, span[1]),
                self._combine(span[2], value),
            )
        return [*before, [first, last, value], *behind]


class SessionSums:
    """Keeps of each session a value, in the place of a `WindowManager`. Times are Unix milliseconds."""

    def __init__(
        self, state: KeyValueState, gap: int, fold: Fold, combine: Callable[[Any, Any], Any]
    ) -> None:
        self._sessions, self._fold = OpenSessions(state, gap, combine), fold
        self._ended = NEVER

    def time_for(self, now: int) -> int:
        """See `Manager.time_for`."""
        return max(now, self._ended + 1)

    def is_full_with(self, more: int) -> bool:
        """Sessions end by time."""
        return False

    def add(self, time: int, tuple: Tuple) -> None:
        """A tuple."""
        text, key, value = self._fold(tuple)
        self._sessions.add(text, list(key), time, value)

    def due(self, time: int) -> Iterator[Any]:
        """See `Manager.due`."""
        self._ended = max(self._ended, time)
        for session in self._sessions.complete(time):
            yield PaneWindow([(session.key, session.value)], session.first, session.last)

    def stored(self) -> list[Any]:
        """For the state."""
        return [self._ended, self._sessions.front]

    def restore(self, stored: list[Any]) -> None:
        """As it was stored."""
        self._ended, self._sessions.front = stored


class SessionManager(SessionSums):
    """Keeps the tuples of sessions. When two become one, none of them moves: they are ordered by key and time."""

    def __init__(self, state: KeyValueState, kept: Kept, gap: int, key: Fields) -> None:
        super().__init__(state, gap, _no_value, _nothing)
        self._kept, self._key = kept, key
        self._number = 0

    def add(self, time: int, tuple: Tuple) -> None:
        """A tuple. Raises `FrameError` if it has not the fields of the key."""
        try:
            key = [tuple[name] for name in self._key]
        except KeyError as error:
            raise FrameError(
                f"it is of no session: {error.args[0]}; the sessions' key is {list(self._key)}"
            ) from None
        text = msgspec.json.encode(key).decode()
        self._number += 1
        self._kept.add(time, self._number, tuple, text + "\x00")
        self._sessions.add(text, key, time, None)

    def due(self, time: int) -> Iterator[TupleWindow]:
        """See `Manager.due`."""
        self._ended = max(self._ended, time)
        for session in self._sessions.complete(time):
            group = session.text + "\x00"
            behind, before = last_key(session.first - 1, group), last_key(session.last, group)
            window = self._window(session, behind, before)
            yield window
            window.pass_by()
            self._kept.forget(behind, before)

    def stored(self) -> list[Any]:
        """For the state."""
        return [*super().stored(), self._number]

    def restore(self, stored: list[Any]) -> None:
        """As it was stored."""
        *others, self._number = stored
        super().restore(others)

    def _window(self, session: Session, behind: str, before: str) -> TupleWindow:
        return TupleWindow(
            lambda: self._kept.tuples(behind, before),
            start_timestamp=session.first,
            end_timestamp=session.last,
            key=session.key,
        )


def _look(time: int, text: str = "") -> str:
    return f"{_LOOK}{text_of(time)}{text}"


def _no_value(tuple: Tuple) -> Any:
    raise NotImplementedError


def _nothing(one: Any, other: Any) -> None:
    """Of the values of sessions that keep tuples."""
