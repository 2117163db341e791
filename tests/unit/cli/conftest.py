"""The command as these tests give it."""

from pathlib import Path

import pytest

from tests.kstorm_command import Command, run_kstorm


@pytest.fixture(autouse=True)
def no_runs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder without runs, so that topologies of this machine are not found."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("KSTORM_HOME", str(home))
    return home


@pytest.fixture
def kstorm(capsys: pytest.CaptureFixture[str]) -> Command:
    """Give the command: exit code, output, errors."""

    return lambda *words: run_kstorm(capsys, *words)
