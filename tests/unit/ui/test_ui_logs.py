"""The last lines of a log, from two runs, limited to what a page can display."""

from pathlib import Path

import pytest

from kstorm.errors import AbsentError
from kstorm_ui.sources.process_logs import MOST_BYTES, last_of, lives_in


def start(number: int, *lines: str) -> str:
    return "".join(
        f"{line}\n" for line in (f"--- count-0, start {number}: python -m kstorm_bolt", *lines)
    )


def test_log_is_split_into_runs(tmp_path: Path) -> None:
    """The last two runs, newest first, each from the line with its command."""
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


def test_previous_run_is_found_before_a_long_one(tmp_path: Path) -> None:
    log = tmp_path / "count-0.log"
    log.write_text(
        start(1, "the last words") + start(2, *(f"line {number}" for number in range(200_000)))
    )
    newest, before = lives_in(log)
    assert (len(newest.lines), newest.lines[-1], newest.is_cut) == (500, "line 199999", True)
    assert before.lines[-1] == "the last words"


def test_log_is_limited_by_lines_bytes_and_line_length() -> None:
    """The newest lines are kept."""
    told = last_of("one", ("é" * 4000 for _ in range(100)))
    assert sum(len(line.encode()) + 1 for line in told.lines) <= MOST_BYTES
    assert (len(told.lines), told.is_cut) == (31, True)
    [line] = last_of("one", ["x" * 1_000_000]).lines
    assert len(line) == 8001


def test_undecodable_bytes_are_replaced(tmp_path: Path) -> None:
    """A line ends only at a line feed. Other control characters are left to the page."""
    log = tmp_path / "count-0.log"
    log.write_bytes(b"half a line \xff\rover\x0b it\n")
    [life] = lives_in(log)
    assert (life.name, life.lines) == ("an earlier start", ["half a line \ufffd\rover\x0b it"])
