"""`./run sim --resume` runs hours of schedules in any number of parts."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from kstorm.errors import ConfigError
from tests.sim.journal import RunJournal
from tests.sim.sweep import run_chunk, run_many, sweep

SEEDS = range(4)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.sim.sweep._CHUNK", 2)


def test_interrupted_run_resumes_at_its_end(tmp_path: Path) -> None:
    """The result equals that of an uninterrupted run."""
    path = tmp_path / "journal"
    first = RunJournal(path, SEEDS)
    first.add(0, run_chunk(SEEDS[:2], trace=True))
    first.save()
    second = RunJournal(path, SEEDS)
    assert (second.done, second.outcome) == ({0}, first.outcome)
    outcome = sweep(SEEDS, 1, journal=second)
    whole = sweep(SEEDS, 1)
    whole.seconds = outcome.seconds
    assert outcome == whole
    assert RunJournal(path, SEEDS).outcome == outcome


def test_finished_schedules_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished run only prints its result."""
    path = tmp_path / "journal"
    journal = RunJournal(path, range(2))
    journal.add(0, run_chunk(range(2), trace=False))
    journal.outcome.seconds = 2.0
    journal.save()
    monkeypatch.setattr("tests.sim.sweep.run_chunk", None)
    console = Console(record=True, width=200)
    assert run_many(range(2), 1, None, console, path) == 0
    assert "2 schedules in 2 s" in console.export_text()


def test_progress_is_logged_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a run of hours needs it."""
    monkeypatch.setattr("tests.sim.sweep._LINE_SECS", 0.0)
    console = Console(file=io.StringIO(), record=True, width=200)
    assert run_many(SEEDS, 1, None, console) == 0
    assert "2 of 4 schedules, " in console.export_text()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("not JSON", "this is not what a run of schedules writes"),
        ("{}", "this is not what a run of schedules writes"),
        (
            None,
            "its 0 schedules ran with other seeds or another kind, so they cannot be added to these: remove the file",
        ),
    ],
)
def test_journal_of_another_run_is_rejected(tmp_path: Path, written: str | None, says: str) -> None:
    """Its results must not be added up with these."""
    path = tmp_path / "journal"
    if written is None:
        RunJournal(path, range(3)).save()
    else:
        path.write_text(written)
    with pytest.raises(ConfigError, match=says):
        RunJournal(path, SEEDS)


def test_schedules_of_another_kind_are_rejected(tmp_path: Path) -> None:
    """They test another guarantee."""
    path = tmp_path / "journal"
    RunJournal(path, SEEDS, "exactly-once").save()
    with pytest.raises(ConfigError, match="ran with other seeds or another kind"):
        RunJournal(path, SEEDS)


def test_missing_folder_is_named_at_the_start(tmp_path: Path) -> None:
    """The run takes hours."""
    with pytest.raises(ConfigError, match=r"there is no folder .*no to write it to"):
        RunJournal(tmp_path / "no/journal", SEEDS)


def test_schedules_of_other_code_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They prove nothing about the present code."""
    path = tmp_path / "journal"
    with monkeypatch.context() as other:
        other.setattr("tests.sim.journal._code", lambda: "other")
        RunJournal(path, SEEDS).save()
    with pytest.raises(ConfigError, match="ran with other code"):
        RunJournal(path, SEEDS)
