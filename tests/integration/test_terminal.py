"""`kstorm consume` at a terminal, of a real record. What other commands show is in `tests/unit/cli/test_terminal.py`."""

import sys

import pytest

from kstorm.cli.__main__ import main
from tests.evil import ESCAPES, SHOWN, Screenful
from tests.integration.kafka_topic import Topic


def test_a_record_is_shown_and_not_obeyed(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Key and value; in a pipe they are as they are."""
    topic.create(1).produce(f"value {ESCAPES}".encode(), key=f"key {ESCAPES}".encode())
    words = ["consume", topic.name, "--bootstrap", topic.kafka.bootstrap]
    out = Screenful()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        with pytest.raises(SystemExit):
            main(words)
    assert out.getvalue() == f"key {SHOWN}\tvalue {SHOWN}\n"
    with pytest.raises(SystemExit):
        main(words)
    assert capsys.readouterr().out == f"key {ESCAPES}\tvalue {ESCAPES}\n"
