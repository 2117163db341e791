"""The command for these tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kstorm.cli.__main__ import main

Command = Callable[..., tuple[object, str, str]]


@pytest.fixture(autouse=True)
def no_runs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder without runs, so that this machine has no topologies."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("KSTORM_HOME", str(home))
    return home


@pytest.fixture
def kstorm(capsys: pytest.CaptureFixture[str]) -> Command:
    """Provide the command, which returns exit code, output and errors."""

    def run(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return ended.value.code, *capsys.readouterr()

    return run
