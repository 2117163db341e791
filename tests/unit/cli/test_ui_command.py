"""`kstorm ui` starts the web UI, or names the package to install."""

import importlib.util
import os
import sys
from typing import Any

import pytest

from kstorm.cli.__main__ import main


def test_command_becomes_the_web_ui_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is the same Python, without a shell."""
    called: list[Any] = []

    def become(program: str, arguments: list[str]) -> None:
        called.append((program, arguments))

    monkeypatch.setattr(os, "execv", become)
    with pytest.raises(SystemExit):
        main(["ui", "--namespace", "streams", "--port", "0"])
    assert called == [
        (sys.executable, [sys.executable, "-m", "kstorm_ui", "--namespace=streams", "--port=0"])
    ]


def test_missing_package_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is one line, and the exit code is 2."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        main(["ui"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "kstorm: the web UI is a separate package, which is not installed: pip install kstorm-service-ui\n"
    )
