"""Decides what the pages show of dead letters and events.

Unless values are shown, the pages have no message's key, value or headers. For an error they have
only its type and location, because its text may quote the message.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kstorm.events import Event
from kstorm.operations.letters.reading import place_of
from kstorm.operations.letters.selection import (
    LetterGroup,
    NumberedLetter,
    component_of,
    fingerprint,
    group_letters,
    kind_of,
)
from kstorm_ui import page_formatting
from kstorm_ui.sources.topic_records import text_of

_MOST_TEXT: Final = 2_000
_BARS: Final = 24
_HOUR_MS: Final = 3_600_000
_NUMBERS: Final = re.compile(r"([0-9]+(?:, [0-9]+)*)(?: and [0-9,]+ more)?(?: \(|$)")
_AGAIN: Final = "failed again"


class LetterFilter(msgspec.Struct, frozen=True):
    """Filter for dead letters. Empty fields match all."""

    kind: str = ""
    component: str = ""
    text: str = ""
    group: str = ""

    def of(self, letters: Iterable[NumberedLetter]) -> list[NumberedLetter]:
        """Return the matching dead letters. `text` is searched in displayable fields, ignoring
        case."""
        text = self.text.casefold()
        return [
            one
            for one in letters
            if self.kind in ("", kind_of(one.letter))
            and self.component in ("", component_of(one.letter))
            and text in f"{error_of(one)}\n{place_of(one.letter)}".casefold()
            and fingerprint(one.letter).startswith(self.group)
        ]


class LetterTrend(msgspec.Struct, frozen=True):
    """Dead letters of a group in each of the last 24 hours."""

    bars: Sequence[int]

    @property
    def said(self) -> str:
        """Text alternative for screen readers."""
        return f"{sum(self.bars):,} in the last day, at most {max(self.bars):,} per hour"

    @property
    def heights(self) -> Sequence[tuple[int, int]]:
        """Each bar's position from the left, and its height out of 20."""
        most = max(self.bars)
        return [
            (place * 4, max(2, round(20 * count / most)))
            for place, count in enumerate(self.bars)
            if count
        ]


class ShownGroup(msgspec.Struct, frozen=True):
    """Similar dead letters, without their error texts."""

    group: str
    """The fingerprint."""
    count: int
    kind: str
    component: str
    type: str
    where: str
    first: int
    last: int
    trend: LetterTrend


class ShownLetter(msgspec.Struct, frozen=True):
    """A dead letter without its message and its error text."""

    number: int
    group: str
    at: int
    kind: str
    component: str
    message: str
    """Coordinates of the message: `sentences/3/10482`, or the part that is known."""
    href: str
    """The message's page, or "" if it has none."""
    trees: Sequence[tuple[str, str]]
    """For a tuple: root and page of each tree that it belongs to."""
    attempts: int
    replays: int
    error: str
    """Type and location."""


def shown_letter(topology: str, one: NumberedLetter) -> ShownLetter:
    """Return the displayable fields of a dead letter for a row."""
    letter = one.letter
    place = letter.topic, letter.partition, letter.offset
    return ShownLetter(
        number=one.number,
        group=fingerprint(letter),
        at=letter.at,
        kind=kind_of(letter),
        component=component_of(letter),
        message=place_of(letter),
        href=page_formatting.path("t", topology, "m", *place) if has_coordinates(one) else "",
        trees=[(root, page_formatting.path("t", topology, "roots", root)) for root in letter.roots]
        if letter.row >= 0
        else [],
        attempts=letter.attempts,
        replays=letter.replays,
        error=error_of(one),
    )


def shown_event(event: Event) -> Event:
    """Return the event without texts in which an error may quote a message."""
    return msgspec.structs.replace(event, outcome=outcome_text(event.outcome))


def grouped(letters: Iterable[NumberedLetter], now_ms: int) -> list[ShownGroup]:
    """Return the groups of dead letters, the largest first."""
    letters = list(letters)
    hours: dict[str, list[int]] = {}
    for one in letters:
        bars = hours.setdefault(fingerprint(one.letter), [0] * _BARS)
        ago = (now_ms - one.letter.at) // _HOUR_MS
        if 0 <= ago < _BARS:
            bars[_BARS - 1 - ago] += 1
    return [
        _shown_group(group, LetterTrend(hours[group.fingerprint]))
        for group in group_letters(letters)
    ]


def _shown_group(group: LetterGroup, trend: LetterTrend) -> ShownGroup:
    return ShownGroup(
        group=group.fingerprint,
        count=group.count,
        kind=group.kind,
        component=group.component,
        type=cut(group.type),
        where=group.where,
        first=group.first,
        last=group.last,
        trend=trend,
    )


def error_of(one: NumberedLetter) -> str:
    """Return the error's type and location, or "" if no error was raised."""
    error = one.letter.error
    if error is None:
        return ""
    return cut(f"{error.type} ({error.where})" if error.where else error.type)


def facts(one: NumberedLetter) -> Iterator[tuple[str, str]]:
    """Yield the name and text of every non-empty field of a dead letter, except its message."""
    return ((name, text) for name, text in _facts(one) if text)


def _facts(one: NumberedLetter) -> Iterator[tuple[str, str]]:
    letter, error = one.letter, one.letter.error
    yield (
        "written",
        f"{page_formatting.moment(letter.at / 1000)} UTC by {letter.component}, task {letter.task}",
    )
    yield "kind", kind_of(letter)
    if error is not None:
        yield "error", error_of(one)
        yield "raised in", f"{error.component or '?'}, task {error.task}"
    yield (
        "its time",
        f"{page_formatting.moment(letter.timestamp / 1000)} UTC" if letter.timestamp else "",
    )
    yield "attempts", str(letter.attempts or "")
    yield "replays", str(letter.replays or "")
    yield "roots", ", ".join(letter.roots) if letter.row < 0 else ""
    yield "waited for", letter.waiting_on
    yield "code", letter.version


def contents(one: NumberedLetter) -> Iterator[tuple[str, str]]:
    """Yield the name and text of a dead letter's contents, if values may be shown."""
    letter = one.letter
    if letter.error is not None and letter.error.message:
        yield "error text", cut(letter.error.message)
    yield "reason", cut(letter.reason)
    if letter.key is not None:
        yield "key", text_of(letter.key) or ""
    if one.has_value:
        yield "value", text_of(letter.value) or ""
    for name, text in letter.headers:
        yield f"header {name}", cut(text or "")


def has_coordinates(one: NumberedLetter) -> bool:
    """Return True if it is a message of a source topic, which has its own page."""
    letter = one.letter
    return letter.offset >= 0 and letter.partition >= 0 and letter.row < 0


def about(events: Iterable[Event], number: int, place: str) -> list[Event]:
    """Return the events of a dead letter: those with its number, and those with its message's
    coordinates, if known."""
    return [
        event
        for event in events
        if number in numbers_of(event) or (place and f"({place})" in event.what)
    ]


def numbers_of(event: Event) -> frozenset[int]:
    """Return the numbers of the dead letters named in an event."""
    if event.verb not in ("replay", "edit", "discard"):
        return frozenset()
    found = _NUMBERS.match(event.what)
    return frozenset(map(int, found[1].split(", "))) if found else frozenset()


def outcome_text(outcome: str) -> str:
    """Return an event's outcome without texts in which an error may quote a message."""
    return _AGAIN if outcome.startswith(f"{_AGAIN}: ") else cut(outcome)


def cut(text: str) -> str:
    """Truncate text to a length that a page can display."""
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
