"""Tables, lines and JSON of dead letters for `kstorm dlq`."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from rich.table import Table

from kstorm.cli.time_options import shown_time
from kstorm.core.dead_letters import TIMED_OUT, DeadLetter
from kstorm.operations.letters.reading import error_text, now_ms, place_of
from kstorm.operations.letters.selection import (
    LetterGroup,
    NumberedLetter,
    component_of,
    fingerprint,
    kind_of,
)
from kstorm.printable import printable

_MOST_SHOWN: Final = 200


_HIDDEN: Final = frozenset({"key", "value", "headers"})
"""Fields of a letter that contain parts of its message."""


def table_of(letters: Iterable[NumberedLetter]) -> Table:
    """Format letters as a table without message contents."""
    table = Table(
        "number", "when (UTC)", "kind", "component", "message", "attempts", "group", "error"
    )
    for one in letters:
        letter = one.letter
        table.add_row(
            str(one.number),
            shown_time(letter.at),
            kind_of(letter) or "–",
            component_of(letter),
            place_of(letter),
            str(letter.attempts or "–"),
            fingerprint(letter)[:4],
            _short(error_text(letter)),
        )
    return table


def table_of_groups(found: Iterable[LetterGroup]) -> Table:
    table = Table(
        "group", "letters", "kind", "component", "first (UTC)", "last (UTC)", "number", "error"
    )
    for group in found:
        type = f"{group.type}: " if group.type else ""
        where = f" ({group.where})" if group.where else ""
        table.add_row(
            group.fingerprint,
            f"{group.count:,}",
            group.kind or "–",
            group.component,
            shown_time(group.first),
            shown_time(group.last),
            str(group.example),
            _short(f"{type}{group.message}{where}"),
        )
    return table


def line_of(one: NumberedLetter) -> str:
    """Format a letter as one line for `watch`."""
    letter = one.letter
    return (
        f"#{one.number} {shown_time(letter.at)} {kind_of(letter) or '–'} {component_of(letter)} "
        f"{place_of(letter)} [{fingerprint(letter)[:4]}] {_short(error_text(letter))}"
    )


def json_of(one: NumberedLetter, *, whole: bool = False) -> str:
    """Encode a letter as JSON with its number and group.

    Unless `whole`, message contents are omitted.
    """
    built: dict[str, Any] = msgspec.to_builtins(one.letter)
    if not whole:
        built = {name: value for name, value in built.items() if name not in _HIDDEN}
    head = {"number": one.number, "group": fingerprint(one.letter)}
    return printable(msgspec.json.encode({**head, **built}).decode())


def json_of_group(group: LetterGroup) -> str:
    return printable(msgspec.json.encode(group).decode())


def fields_of(one: NumberedLetter) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every part of a letter."""
    letter, error = one.letter, one.letter.error
    yield "number", str(one.number)
    yield "group", fingerprint(letter)
    yield (
        "written",
        f"{shown_time(letter.at)} UTC by {letter.component}, task {letter.task}"
        if letter.at
        else "–",
    )
    yield "kind", kind_of(letter) or "–"
    yield "reason", letter.reason
    if error is not None:
        yield "error", f"{error.type}: {error.message}" if error.type else error.message
        yield (
            "raised",
            (
                f"in {error.component or '?'}, task {error.task}"
                f"{error.where and f', at {error.where}'}"
            ),
        )
    yield "message", place_of(letter)
    yield "timestamp", f"{shown_time(letter.timestamp)} UTC" if letter.timestamp else "–"
    yield "attempts", str(letter.attempts or "–")
    yield "replays", str(letter.replays or "")
    yield "roots", ", ".join(letter.roots)
    if letter.roots:
        hours = max(1, -(-(now_ms() - letter.at) // 3_600_000)) if letter.at else 24
        yield (
            "descends",
            f"from the message that `kstorm trace --root {letter.roots[0]} --since {hours + 1}h` shows",
        )
    for told in letter.waiting_on.split("\n") if letter.waiting_on else _hint(letter):
        yield "waited for", told
    yield "code", letter.version
    for name, value in letter.headers:
        yield f"header {name}", "(none)" if value is None else value
    yield "key", _text(letter.key)
    yield "value", _text(letter.value)


def _hint(letter: DeadLetter) -> Iterator[str]:
    if kind_of(letter) == TIMED_OUT:
        yield "(--why finds it in the topics)"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _text(content: bytes | None) -> str:
    return "(none)" if content is None else content.decode(errors="backslashreplace")
