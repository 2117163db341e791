"""The last lines of a log: of two lives, and not more than a page can bear."""

from pathlib import Path

import pytest

from kstorm.errors import AbsentError
from kstorm_ui.sources.logs import MOST_BYTES, last_of, lives_in


def start(number: int, *lines: str) -> str:
    return "".join(
        f"{line}\n" for line in (f"--- count-0, start {number}: python -m kstorm_bolt", *lines)
    )


def test_a_log_is_cut_into_lives(tmp_path: Path) -> None:
    """The last two, the newest first, each from the line that says how it was started."""
    log = tmp_path / "count-0.log"
    log.write_text(start(1, "old") + start(2, "Traceback", "killed") + start(3, "ready"))
    newest, before = lives_in(log)
    assert (newest.name, newest.lines[1:], newest.is_cut) == ("start 3", ["ready"], False)
    assert (before.name, before.lines[1:], before.is_cut) == (
        "start 2",
        ["Traceback", "killed"],
        False,
    )
    log.write_text(start(1, "alone"))
    assert [each.lines[1:] for each in lives_in(log)] == [["alone"]]
    with pytest.raises(AbsentError, match="cannot be read: No such file"):
        lives_in(tmp_path / "none.log")


def test_the_life_before_is_found_behind_a_talkative_one(tmp_path: Path) -> None:
    """However much more that has said than is shown."""
    log = tmp_path / "count-0.log"
    log.write_text(
        start(1, "the last words") + start(2, *(f"line {number}" for number in range(200_000)))
    )
    newest, before = lives_in(log)
    assert (len(newest.lines), newest.lines[-1], newest.is_cut) == (500, "line 199999", True)
    assert before.lines[-1] == "the last words"


def test_not_more_is_kept_than_a_page_can_bear() -> None:
    """By lines, by bytes and in one line; the newest stay. What is no text does not end it."""
    told = last_of("one", ("é" * 4000 for _ in range(100)))
    assert sum(len(line.encode()) + 1 for line in told.lines) <= MOST_BYTES
    assert (len(told.lines), told.is_cut) == (31, True)
    [line] = last_of("one", ["x" * 1_000_000]).lines
    assert len(line) == 8001


def test_what_is_no_text_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    """A line ends where a line feed is, and nowhere else: what else would end one is for the page to show."""
    log = tmp_path / "count-0.log"
    log.write_bytes(b"half a line \xff\rover\x0b it\n")
    [life] = lives_in(log)
    assert (life.name, life.lines) == ("an older start", ["half a line \ufffd\rover\x0b it"])
