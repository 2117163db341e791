"""The file of Java's classes: made once, and done without where it cannot be made."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstorm.local import classes
from kstorm.local.java import SHORT_RUN_OPTIONS

Run = Callable[..., Any]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "classes" / "0.jsa"
    place.parent.mkdir()
    monkeypatch.setattr(classes, "_archive", lambda: place)
    monkeypatch.setattr(classes, "spark_jars", list)
    monkeypatch.setattr(classes, "spark_environment", dict)
    return place


def _java(calls: list[list[str]], error: Exception | None) -> Run:
    def run(command: list[str], **_: object) -> None:
        calls.append(command)
        given = dict(option.partition("=")[::2] for option in command[-1].split())
        Path(given["-XX:ArchiveClassesAtExit"]).write_bytes(b"classes")
        if error is not None:
            raise error

    return run


def test_it_is_made_once_and_used(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", _java(calls, None))
    assert classes.short_run_options() == SHORT_RUN_OPTIONS
    classes.make_archive()
    classes.make_archive()
    assert len(calls) == 1
    assert f"-XX:SharedArchiveFile={archive}" in classes.short_run_options()
    assert {each.suffix for each in archive.parent.iterdir()} == {".jsa", ".lock"}


def test_where_it_cannot_be_made_a_file_has_the_reason_and_there_is_no_second_try(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    error = subprocess.CalledProcessError(1, ["java"], stderr=b"no room")
    monkeypatch.setattr(subprocess, "run", _java(calls, error))
    classes.make_archive()
    classes.make_archive()
    assert len(calls) == 1
    assert "no room" in archive.with_suffix(".failed").read_text()
    assert not archive.with_suffix(".unfinished").exists()
    assert classes.short_run_options() == SHORT_RUN_OPTIONS


def test_a_process_of_its_own_makes_it_unless_it_is_there(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo is over by then and does not wait."""
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    classes.make_in_background()
    assert started == [[sys.executable, "-m", "kstorm.local.classes"]]
    archive.touch()
    classes.make_in_background()
    assert len(started) == 1


def test_a_folder_with_a_space_is_one_word_for_spark(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaced = archive.parent / "a b.jsa"
    spaced.touch()
    monkeypatch.setattr(classes, "_archive", lambda: spaced)
    assert f'-XX:SharedArchiveFile="{spaced}"' in classes.short_run_options()
