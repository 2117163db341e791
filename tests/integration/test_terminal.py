"""`kstorm consume` on a terminal, with a real record.

`tests/unit/cli/test_terminal.py` tests other commands.
"""

import sys

import pytest

from kstorm.cli.__main__ import main
from tests.evil import ESCAPES, SHOWN, Screenful
from tests.integration.kafka_topic import Topic


def test_control_characters_of_a_record_are_escaped(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This holds for key and value. In a pipe they stay unchanged."""
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
