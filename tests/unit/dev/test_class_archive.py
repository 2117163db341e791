"""The archive of Java's classes is created once. Without it kstorm works too."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstorm.dev import class_archive
from kstorm.dev.java import SHORT_RUN_OPTIONS

Run = Callable[..., Any]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "classes" / "0.jsa"
    place.parent.mkdir()
    monkeypatch.setattr(class_archive, "_archive", lambda: place)
    monkeypatch.setattr(class_archive, "spark_jars", list)
    monkeypatch.setattr(class_archive, "spark_environment", dict)
    return place


def _java(calls: list[list[str]], error: Exception | None) -> Run:
    def run(command: list[str], **_: object) -> None:
        calls.append(command)
        given = dict(option.partition("=")[::2] for option in command[-1].split())
        Path(given["-XX:ArchiveClassesAtExit"]).write_bytes(b"classes")
        if error is not None:
            raise error

    return run


def test_archive_is_created_once_and_used(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", _java(calls, None))
    assert class_archive.short_run_options() == SHORT_RUN_OPTIONS
    class_archive.make_archive()
    class_archive.make_archive()
    assert len(calls) == 1
    assert f"-XX:SharedArchiveFile={archive}" in class_archive.short_run_options()
    assert {each.suffix for each in archive.parent.iterdir()} == {".jsa", ".lock"}


def test_failure_to_create_the_archive_is_stored_and_not_repeated(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    error = subprocess.CalledProcessError(1, ["java"], stderr=b"no room")
    monkeypatch.setattr(subprocess, "run", _java(calls, error))
    class_archive.make_archive()
    class_archive.make_archive()
    assert len(calls) == 1
    assert "no room" in archive.with_suffix(".failed").read_text()
    assert not archive.with_suffix(".unfinished").exists()
    assert class_archive.short_run_options() == SHORT_RUN_OPTIONS


def test_background_process_creates_a_missing_archive(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo ends without waiting for it."""
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    class_archive.make_in_background()
    assert started == [[sys.executable, "-m", "kstorm.dev.class_archive"]]
    archive.touch()
    class_archive.make_in_background()
    assert len(started) == 1


def test_archive_path_with_a_space_is_quoted_for_spark(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaced = archive.parent / "a b.jsa"
    spaced.touch()
    monkeypatch.setattr(class_archive, "_archive", lambda: spaced)
    assert f'-XX:SharedArchiveFile="{spaced}"' in class_archive.short_run_options()
