"""The output of `kstorm` for texts of other people.

`tests/integration/test_terminal.py` prints control sequences of a record to a real terminal.
"""

import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.text import Text

from kstorm.cli.__main__ import main
from kstorm.cli.wait_display import wait_until
from kstorm.printable import printable
from kstorm.runtime.base.terminal import Screen
from kstorm_pipeline.__main__ import main as pipeline_main
from kstorm_pipeline.errors import PipelineError
from tests.evil import ESCAPES, SHOWN, Screenful
from tests.exec_stub import ended
from tests.kubernetes_stub import KubernetesStub

NAME = f"word{ESCAPES}"
_TURN = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_MARKS = "\u061c\u200e\u200f"

Show = Callable[..., tuple[str, str]]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Provide the command at a terminal, with its screen and its errors."""

    def run(*words: str) -> tuple[str, str]:
        out, err = Screenful(), Screenful()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit):
                main(words)
        return out.getvalue(), err.getvalue()

    return run


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesStub]:
    """Provide a cluster whose texts are all hostile."""
    with KubernetesStub() as stub:
        stub.add("sentences", "spout", topology=NAME, release=NAME)
        stub.add("split", "bolt", topology=NAME, release=NAME)
        stub.pods[0]["metadata"]["name"] = "spout-0"
        stub.pods[1]["metadata"]["name"] = "bolt-0"
        stub.trouble("bolt-0", "Error", ESCAPES)
        counts = dict.fromkeys(
            ("emitted", "executed", "acked", "failed", "pending", "frames_in", "errors"), 0
        )
        page = {"kind": "spout", "tasks": [0], "num_tasks": 1, "latency_counts": [], **counts}
        evil = {
            "remark": ESCAPES,
            "not_ready": ESCAPES,
            "last_error": ESCAPES,
            "last_error_task": 0,
            "last_error_age": 1.0,
        }
        stub.pages = {"spout-0": page | evil}
        stub.lines = {"spout-0": [ESCAPES.replace("\r", "")], "bolt-0": []}
        monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(tmp_path / "config")))
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("KSTORM_ZOOKEEPER", raising=False)
        yield stub


def obeyed(text: str) -> list[str]:
    """Returns the hostile sequences that a terminal would still execute.

    Colours and cursor movements belong to the command itself.
    """
    return [
        each
        for each in ("\x1b]0;", "\x07", "\x1b[2J ", "\x9b", "\u202e", "\r", "\x08")
        if each in text
    ]


@pytest.mark.parametrize(
    ("words", "times"),
    [
        (["topology", "list"], 2),
        (["topology", "describe", NAME], 3),
        (["topology", "status", NAME, "--window", "0"], 4),
        (["logs", NAME], 1),
    ],
)
def test_texts_of_the_cluster_are_escaped(show: Show, words: list[str], times: int) -> None:
    """This covers names, problems of pods, reports of services, types of errors, and logs."""
    out, _ = show(*words)
    assert obeyed(out) == []
    assert out.count("\\u001b]0;owned\\u0007") >= times


@pytest.mark.parametrize(
    "words", [["topology", "list"], ["topology", "status", NAME], ["topology", "describe", NAME]]
)
def test_json_is_the_same_at_a_terminal_and_in_a_pipe(
    show: Show, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    out, _ = show(*words, "-o", "json")
    assert obeyed(out) == []
    with pytest.raises(SystemExit):
        main([*words, "-o", "json"])
    piped = capsys.readouterr().out
    assert "\u202e" in piped
    assert json.loads(piped) == json.loads(out)


def test_errors_are_escaped(show: Show) -> None:
    _, error = show("drain", NAME + "x")
    assert obeyed(error) == []
    assert SHOWN in error


def test_progress_is_escaped() -> None:
    """It shows names of spout processes during a wait. Markup in a name has no effect."""
    out = Screenful()
    left = [f"waiting for {ESCAPES}[link=x]here[/]", ""]
    assert wait_until(lambda: left.pop(0), 10.0, Screen(file=out, width=200)) == ""
    assert set(obeyed(out.getvalue())) <= {"\r"}, "which the line in place is written with"
    assert f"waiting for {SHOWN}[link=x]here[/]" in out.getvalue()


def test_screen_escapes_everything() -> None:
    out = Screenful()
    Screen(file=out, width=200).print(Text(f"{ESCAPES}x", style="red"))
    assert obeyed(out.getvalue()) == []
    assert "\\u001b]0;owned" in out.getvalue()


def test_table_without_a_terminal_has_the_width_of_its_cells() -> None:
    """This applies to a pipe or CI. On a terminal, its width or COLUMNS applies."""
    cells = ("x" * 150, "y" * 150)
    lines = piped_table(cells)
    assert any(set(cells) <= set(line.split()) for line in lines)
    assert {len(line) for line in lines if line} == {len(lines[0])}, "and no wider"
    assert max(map(len, piped_table(cells, COLUMNS="60"))) <= 60


def piped_table(cells: tuple[str, ...], **environment: str) -> list[str]:
    """Returns the lines that another process writes to a pipe."""
    code = "import sys; from rich.table import Table; from kstorm.runtime.base.terminal import Screen; table = Table('a', 'b'); "
    code += "table.add_row(*sys.argv[1:]); Screen().print(table)"
    environ = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")
    }
    command = [sys.executable, "-c", code, *cells]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**environ, **environment}
    )
    return done.stdout.splitlines()


def test_output_of_a_pod_is_escaped(show: Show, cluster: KubernetesStub) -> None:
    cluster.on_exec = lambda pod, command: iter(
        [(1, ESCAPES.encode()), (2, ESCAPES.encode()), ended(0)]
    )
    out, error = show("drain", NAME)
    assert obeyed(out + error) == []
    assert out == SHOWN
    assert SHOWN in error


def test_console_logs_are_escaped() -> None:
    """This covers the text of an exception, of kstorm's own records and of libraries' records."""
    code = (
        "import logging; from kstorm.runtime.base.log import configure; from tests.evil import ESCAPES\n"
        "log = configure(form='console', name=ESCAPES)\n"
        "try: raise ValueError(ESCAPES)\n"
        "except ValueError: log.exception(ESCAPES); logging.getLogger('faust').exception(ESCAPES)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert obeyed(shown) == []
    assert shown.count(f"ValueError: {SHOWN}") == 2


def test_pipeline_output_is_escaped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A record's key, value and headers, and the text of an error, are shown as JSON."""
    record = {"key": ESCAPES, "value": ESCAPES, "headers": [{"key": ESCAPES, "value": ESCAPES}]}

    def command(*_: object) -> int:
        sys.stdout.writelines([json.dumps(record, ensure_ascii=False) + "\n"])
        raise PipelineError(ESCAPES)

    out, err = Screenful(), Screenful()
    monkeypatch.setattr("kstorm_pipeline.__main__._command", command)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        assert pipeline_main(["show", "bronze", "--tables", str(tmp_path)]) == 1
    assert obeyed(out.getvalue() + err.getvalue()) == []
    assert json.loads(out.getvalue()) == record
    assert err.getvalue().endswith(f"kstorm_pipeline: {SHOWN}\n")


def test_only_control_characters_are_escaped() -> None:
    """Services and pipeline escape the same characters. Their JSON is unchanged."""
    for number in range(sys.maxunicode + 1):
        letter = chr(number)
        shown = printable(letter)
        control = unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") and letter not in "\t\n"
        assert (shown != letter) == (
            control or unicodedata.bidirectional(letter) in _TURN or letter in _MARKS
        )
        if shown != letter:
            assert shown.isascii()
            assert json.loads(f'"{shown}"') == letter
