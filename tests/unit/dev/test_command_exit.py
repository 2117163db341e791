"""The end of an interrupted command."""

import signal
import sys
import time

import pytest

from kstorm.dev.command_exit import run_command


class Interrupted:
    """An object whose finalizer receives a Ctrl-C."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)


def test_interruption_is_not_lost_in_a_finalizer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python drops exceptions that a finalizer raises."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    handlers = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def command() -> int:
        found: object = Interrupted()
        del found
        time.sleep(10)
        return 0

    try:
        assert run_command("test", command) == 130
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert "interrupted" in capsys.readouterr().err
