"""Runs the command `kstorm` in this process."""

from collections.abc import Callable

import pytest

from kstorm.cli.__main__ import main

Command = Callable[..., tuple[object, str, str]]


def run_kstorm(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str, str]:
    """Run a command. Return exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code, *capsys.readouterr()


def says(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Run a command that ends with `code`. Return its output, or its errors if it fails."""
    ended, output, errors = run_kstorm(capsys, *words)
    assert ended == code, errors
    return errors if code else output
