"""The visible and the hidden parts of dead letters and events on the pages."""

from typing import Any

from kstorm.core.dead_letters import DeadLetter, LetterError
from kstorm.events import Event
from kstorm.operations.letters.selection import NumberedLetter
from kstorm_ui.page_redaction import (
    LetterFilter,
    about,
    error_of,
    facts,
    grouped,
    numbers_of,
    outcome_text,
)

HOUR = 3_600_000


def letter(
    number: int = 0, message: str = "no user 'anna' of 17", **changes: Any
) -> NumberedLetter:
    parts: dict[str, Any] = {
        "topology": "words",
        "component": "lines",
        "task": 1,
        "reason": f"failed: {message}",
        "topic": "in",
        "partition": 3,
        "offset": 100 + number,
        "value": b"anna",
        "headers": [("user", "anna")],
        "at": 100 * HOUR,
        "kind": "failed",
        "error": LetterError(
            type="ValueError", message=message, component="price", task=2, where="price.py:41"
        ),
    }
    return NumberedLetter(number, DeadLetter(**{**parts, **changes}), b"k")


def test_error_texts_and_reasons_are_hidden() -> None:
    assert error_of(letter()) == "ValueError (price.py:41)"
    assert ("error", "ValueError (price.py:41)") in list(facts(letter()))
    assert "anna" not in repr(list(facts(letter())))


def test_search_covers_only_displayed_fields() -> None:
    """Otherwise a hidden text could be guessed letter by letter."""
    assert LetterFilter(text="anna").of([letter()]) == []
    assert LetterFilter(text="VALUEERROR").of([letter()]) == [letter()]
    assert LetterFilter(text="in/3/100").of([letter(), letter(1)]) == [letter()]
    assert LetterFilter(kind="failed", component="price").of([letter()]) == [letter()]
    assert LetterFilter(component="lines").of([letter()]) == []


def test_group_has_hourly_bars_of_the_last_day() -> None:
    """Older dead letters count in the group, but have no bar."""
    times = (100 * HOUR, 100 * HOUR - 1, 99 * HOUR, 50 * HOUR)
    (group,) = grouped([letter(at=at) for at in times], 100 * HOUR)
    assert (group.count, sum(group.trend.bars), group.trend.bars[-2:]) == (4, 3, [1, 2])
    assert group.trend.heights[-1] == (92, 20)


def test_events_of_a_dead_letter_match_its_number_or_coordinates() -> None:
    """A message that failed again has a dead letter with another number."""
    ordered = Event(at=1, who="a", verb="replay", what="1, 20, 3 (group 3f2a)")
    ended = Event(
        at=2,
        who="lines, task 1",
        verb="replay",
        what="3 (in/3/103)",
        outcome="failed again: no 'x' 7",
    )
    more = Event(at=3, who="a", verb="discard", what="1, 2 and 40 more")
    moved = Event(at=3, who="a", verb="offsets set", what="1")
    assert [sorted(numbers_of(event)) for event in (ordered, ended, more, moved)] == [
        [1, 3, 20],
        [3],
        [1, 2],
        [],
    ]
    events = [ordered, ended, more, moved]
    assert about(events, 3, "") == [ordered, ended]
    assert about(events, 9, "in/3/103") == [ended]
    assert about(events, 9, "") == []
    assert outcome_text(ended.outcome) == "failed again"
    assert outcome_text("3 discarded") == "3 discarded"
