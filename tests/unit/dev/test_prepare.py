"""The last part of the set-up: jars and bytecode, side by side and once."""

import signal
from pathlib import Path

import pytest

from kstorm.dev import jars
from kstorm.dev import prepare as module
from kstorm.dev.prepare import prepare


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose compiling process appends a line to `tmp_path/runs`."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nsleep 0.3; echo run >>'{tmp_path}/runs'\n")
    program.chmod(0o755)
    monkeypatch.setattr(module, "executable", str(program))
    monkeypatch.setenv("KSTORM_HOME", str(tmp_path))
    return tmp_path


def test_the_jars_come_while_the_bytecode_is_compiled(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order: list[str] = []
    monkeypatch.setattr(jars, "prepare", lambda: order.append(str((home / "runs").exists())))
    prepare()
    assert order == ["False"]
    assert (home / "runs").read_text() == "run\n"
    assert "bytecode   100%" in capsys.readouterr().err
    prepare()
    assert (home / "runs").read_text() == "run\n"


def test_an_interruption_leaves_it_to_the_next_time(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "prepare", lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        prepare()
    assert not (home / "compiled").exists()
    monkeypatch.setattr(jars, "prepare", lambda: None)
    prepare()
    assert (home / "compiled").exists()


def test_every_module_is_there() -> None:
    """A missing module would be skipped silently."""
    for name in module._MODULES:
        assert module.importlib.util.find_spec(name) is not None  # type: ignore[attr-defined]
