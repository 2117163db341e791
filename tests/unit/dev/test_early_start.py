"""Spark starts ahead of its work."""

import threading
from pathlib import Path
from typing import Any

import pytest

from kstorm_pipeline import early_start
from kstorm_pipeline.errors import PipelineError
from tests.unit.dev.conftest import Eventually

WORDS = ["run", "--tables", "/tables", "--bootstrap-servers", "127.0.0.1:1", "--topic", "t"]


def test_the_command_begins_when_the_file_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """Spark has started by then, with the settings of the command."""
    happened: list[Any] = []
    monkeypatch.setattr(
        early_start, "start_spark", lambda settings: happened.append(settings.tables)
    )

    def main(words: list[str]) -> int:
        happened.append(words)
        return 7

    monkeypatch.setattr(early_start, "main", main)
    file = tmp_path / "go"
    codes: list[int] = []
    waiting = threading.Thread(target=lambda: codes.append(early_start.wait(file, WORDS)))
    waiting.start()
    eventually(lambda: happened == ["/tables"])
    file.touch()
    waiting.join(10)
    assert happened[1:] == [WORDS]
    assert codes == [7]


def test_a_spark_that_does_not_start_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(settings: object) -> None:
        raise PipelineError("Spark did not start")

    monkeypatch.setattr(early_start, "start_spark", fails)
    assert early_start.wait(tmp_path / "go", WORDS) == 1
    assert capsys.readouterr().err == "kstorm_pipeline: Spark did not start\n"
