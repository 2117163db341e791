"""The command for these tests."""

from pathlib import Path

import pytest

from tests.kstorm_command import Command, run_kstorm


@pytest.fixture(autouse=True)
def no_runs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder without runs, so that this machine has no topologies."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("KSTORM_HOME", str(home))
    return home


@pytest.fixture
def kstorm(capsys: pytest.CaptureFixture[str]) -> Command:
    """Provide the command, which returns exit code, output and errors."""

    return lambda *words: run_kstorm(capsys, *words)
