"""`./run sim --resume`: hours of schedules, in as many runs as it takes."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from kstorm.errors import ConfigError
from tests.sim.journal import Journal
from tests.sim.many import run_chunk, run_many, sweep

SEEDS = range(10)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.sim.many._CHUNK", 5)


def test_an_interrupted_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    """And comes to the same as one that was not interrupted."""
    path = tmp_path / "journal"
    first = Journal(path, SEEDS)
    first.add(0, run_chunk(SEEDS[:5], trace=True))
    first.save()
    second = Journal(path, SEEDS)
    assert (second.done, second.outcome) == ({0}, first.outcome)
    outcome = sweep(SEEDS, 1, journal=second)
    whole = sweep(SEEDS, 1)
    whole.seconds = outcome.seconds
    assert outcome == whole
    assert Journal(path, SEEDS).outcome == outcome


def test_what_is_done_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished run only tells what came of it."""
    path = tmp_path / "journal"
    journal = Journal(path, range(3))
    journal.add(0, run_chunk(range(3), trace=False))
    journal.outcome.seconds = 2.0
    journal.save()
    monkeypatch.setattr("tests.sim.many.run_chunk", None)
    console = Console(record=True, width=200)
    assert run_many(range(3), 1, None, console, path) == 0
    assert "3 schedules in 2 s" in console.export_text()


def test_without_a_terminal_a_line_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the log of a run of hours."""
    monkeypatch.setattr("tests.sim.many._LINE_SECS", 0.0)
    console = Console(file=io.StringIO(), record=True, width=200)
    assert run_many(SEEDS, 1, None, console) == 0
    assert "5 of 10 schedules, " in console.export_text()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("not JSON", "this is not what a run of schedules writes"),
        ("{}", "this is not what a run of schedules writes"),
        (
            None,
            "the 0 schedules there are of other seeds or another kind, and would not add up with these: remove the file",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, written: str | None, says: str) -> None:
    """Rather than added up."""
    path = tmp_path / "journal"
    if written is None:
        Journal(path, range(7)).save()
    else:
        path.write_text(written)
    with pytest.raises(ConfigError, match=says):
        Journal(path, SEEDS)


def test_schedules_of_another_kind_are_refused(tmp_path: Path) -> None:
    """They have another promise."""
    path = tmp_path / "journal"
    Journal(path, SEEDS, "exactly-once").save()
    with pytest.raises(ConfigError, match="are of other seeds or another kind"):
        Journal(path, SEEDS)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Before hours are spent."""
    with pytest.raises(ConfigError, match=r"there is no folder .*no to write it to"):
        Journal(tmp_path / "no/journal", SEEDS)


def test_schedules_of_other_code_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They prove nothing of this one."""
    path = tmp_path / "journal"
    with monkeypatch.context() as other:
        other.setattr("tests.sim.journal._code", lambda: "other")
        Journal(path, SEEDS).save()
    with pytest.raises(ConfigError, match="are of other code"):
        Journal(path, SEEDS)
