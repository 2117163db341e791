"""The end of a command that is interrupted, or may not write a file."""

import errno
import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from kstorm.dev.command_exit import run_command


@pytest.fixture(autouse=True)
def handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore what `run_command` sets for its whole process."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    found = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in found.items():
        signal.signal(number, handler)


class Interrupted:
    """An object whose finalizer receives a Ctrl-C."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)


def test_interruption_is_not_lost_in_a_finalizer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python drops exceptions that a finalizer raises."""
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def command() -> int:
        found: object = Interrupted()
        del found
        time.sleep(10)
        return 0

    assert run_command("test", command) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "uv", "remedy"),
    [
        ("/cache/kstorm/jars", None, "Set KSTORM_CACHE to a folder"),
        ("/cache", None, "Set KSTORM_CACHE to a folder"),
        ("/project/.kstorm", None, "Work in a folder of your own, or set KSTORM_HOME"),
        ("/project/.kstorm", "/uv", "Use a checkout in a folder of your own"),
    ],
    ids=["cache", "home", "project", "checkout"],
)
def test_forbidden_file_names_what_moves_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    path: str,
    uv: str | None,
    remedy: str,
) -> None:
    """`kstorm dev` of a wheel has no checkout, and its jars are elsewhere than its state."""
    monkeypatch.delenv("KSTORM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    if uv:
        monkeypatch.setenv("UV", uv)
    else:
        monkeypatch.delenv("UV", raising=False)

    def command() -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    assert run_command("kstorm dev", command) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"kstorm dev: this user may not write {path} (Permission denied). {remedy}"
    )
