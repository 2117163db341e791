"""Cache and run directories are private to a run, and their number is limited."""

import subprocess
import sys
from pathlib import Path

import pytest

from kstorm.dev.paths import cache_directory, kept_directory, run_directory
from kstorm.errors import LocalError


def test_cache_location_is_configurable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`KSTORM_CACHE` wins over `XDG_CACHE_HOME`, which wins over the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("KSTORM_CACHE", raising=False)
    assert cache_directory() == tmp_path / ".cache" / "kstorm"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "kstorm"
    monkeypatch.setenv("KSTORM_CACHE", str(tmp_path / "own"))
    assert cache_directory() == tmp_path / "own"


def test_two_runs_never_share_a_directory(tmp_path: Path) -> None:
    """Each call creates a directory, even within the same second and process."""
    assert len({run_directory(tmp_path) for _ in range(3)}) == 3


def test_old_runs_are_removed_once_they_have_ended(tmp_path: Path) -> None:
    """The newest four directories of ended processes stay."""
    make_one = f"from kstorm.dev.paths import *; print(run_directory(Path({str(tmp_path)!r})))"
    ended = [
        Path(
            subprocess.run(
                [sys.executable, "-c", make_one], capture_output=True, text=True, check=True
            ).stdout.strip()
        )
        for _ in range(7)
    ]
    new = run_directory(tmp_path)
    assert new in set(tmp_path.iterdir())
    assert len(set(tmp_path.iterdir()) & set(ended)) == 4


def test_failed_start_displaces_no_tables(tmp_path: Path) -> None:
    """A removal is reported."""
    make = (
        "from kstorm.dev.paths import *; d = run_directory(Path({!r}), print); {}; d.joinpath({!r})"
    )
    tables = "d.joinpath('tables').mkdir()"

    def start(what: str) -> str:
        code = make.format(str(tmp_path), what, "")
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout

    for _ in range(4):
        assert start(tables) == ""
    kept = set(tmp_path.iterdir())
    for _ in range(6):
        start("pass")
    assert kept < set(tmp_path.iterdir())
    start(tables)
    told = start(tables)
    assert told.startswith("removed the oldest runs with their logs and tables: ")
    assert min(each.name for each in kept) in told


def test_running_run_is_never_removed(tmp_path: Path) -> None:
    """The directory of a living process stays despite newer runs."""
    living = [run_directory(tmp_path) for _ in range(12)]
    assert all(directory.is_dir() for directory in living)


def test_kept_directory_stays_until_it_is_wanted_fresh(tmp_path: Path) -> None:
    """Its logs begin again. Two processes cannot use it at the same time."""
    use = "from kstorm.dev.paths import *; d = kept_directory('hello', Path({!r}), fresh={}); print(len(list(d.iterdir())))"
    directory = tmp_path / "hello"
    directory.mkdir()
    (directory / "data").mkdir()
    (directory / "count-0.log").touch()

    def files_in_another_process(*, fresh: bool) -> int:
        command = [sys.executable, "-c", use.format(str(tmp_path), fresh)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert files_in_another_process(fresh=False) == 1
    assert files_in_another_process(fresh=True) == 0
    assert kept_directory("hello", tmp_path) == directory
    with pytest.raises(subprocess.CalledProcessError):
        files_in_another_process(fresh=True)
    with pytest.raises(LocalError, match=r"^another process runs 'hello' in .*: stop it, or give "):
        kept_directory("hello", tmp_path)
