"""The command as these tests give it."""

from collections.abc import Callable

import pytest

from kstorm.cli.__main__ import main

Command = Callable[..., tuple[object, str, str]]


@pytest.fixture
def kstorm(capsys: pytest.CaptureFixture[str]) -> Command:
    """Give the command: exit code, output, errors."""

    def run(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return ended.value.code, *capsys.readouterr()

    return run
