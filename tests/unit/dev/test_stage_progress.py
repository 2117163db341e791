"""The progress line of a stage, on a terminal and in a file."""

import io
import time

import pytest

from kstorm.dev import stage_progress
from kstorm.dev.stage_progress import StageProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that shows the last element of the list."""
    now = [100.0]
    monkeypatch.setattr(stage_progress, "time", type("time", (), {"monotonic": lambda: now[-1]}))
    return now


def test_file_gets_a_line_every_ten_seconds_and_one_at_the_end(clock: list[float]) -> None:
    out = io.StringIO()
    with StageProgress("packages", out) as line:
        for second in range(1, 25):
            clock.append(100.0 + second)
            line.show(second / 50, "pyspark")
        line.end("99 packages")
    assert [" ".join(each.split()) for each in out.getvalue().splitlines()] == [
        "packages 20% 10 s pyspark",
        "packages 40% 20 s pyspark",
        "packages 100% 24 s 99 packages",
    ]


def test_terminal_shows_one_line_with_a_bar() -> None:
    out = Terminal()
    with StageProgress("jars", out) as line:
        time.sleep(0.15)
        line.show(0.5, "49 of 99")
        line.say("something else")
    assert out.getvalue().count("\n") == 2  # after the message, and at the end
    frames = out.getvalue().split("\r\x1b[K")
    assert any("██████████░░░░░░░░░░   50%" in frame and "49 of 99" in frame for frame in frames)
    assert any(frame.startswith("something else\n") for frame in frames)
    assert "100%" in frames[-1]


def test_share_never_falls() -> None:
    out = Terminal()
    line = StageProgress("jars", out)
    line.show(0.6)
    time.sleep(0.11)
    line.show(0.2)
    assert " 60%" in out.getvalue().rpartition("\x1b[K")[2]


def test_error_leaves_the_line_unchanged() -> None:
    out = Terminal()

    def failing() -> None:
        with StageProgress("servers", out) as line:
            line.show(0.3)
            raise ValueError("it")

    with pytest.raises(ValueError, match="it"):
        failing()
    assert "100%" not in out.getvalue()
    assert out.getvalue().endswith("\n")


def test_control_characters_of_other_programs_are_removed() -> None:
    out = Terminal()
    StageProgress("packages", out).show(0.1, "a\x1b[2Jb")
    assert "\x1b[2J" not in out.getvalue()


def test_terminal_without_unicode_gets_an_ascii_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminal, "encoding", "latin-1", raising=False)
    out = Terminal()
    StageProgress("packages", out).show(0.5)
    assert "##########----------" in out.getvalue()
