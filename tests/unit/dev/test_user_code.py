"""The user's code behind `kstorm dev`: loading it again, watching it, and finding lines of errors."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kstorm.dev.logged_errors import LoggedErrors
from kstorm.dev.user_files import UserCode, is_users
from kstorm.errors import ConfigError, LocalError

CODE = """\
from parts import SIZE
from kstorm import *

class Words(Spout):
    def declare_output_fields(self, declarer):
        declarer.declare("word")
    def next_tuple(self):
        pass

builder = TopologyBuilder("hello")
builder.set_spout("words", Words(), SIZE)
topology = builder.build()
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserCode:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("hello_code", "parts"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "hello_code.py").write_text(CODE)
    (tmp_path / "parts.py").write_text("SIZE = 2\n")
    return UserCode("hello_code:topology")


def test_code_is_loaded_again_with_what_it_imports(code: UserCode, tmp_path: Path) -> None:
    assert code.load().component("words").parallelism == 2
    (tmp_path / "parts.py").write_text("SIZE = 3\n")
    assert code.load().component("words").parallelism == 3


def test_error_in_the_code_has_file_and_line(code: UserCode, tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("\nSIZE = 1 // 0\n")
    with pytest.raises(LocalError, match=r"^parts\.py:2 in <module>: ZeroDivisionError: "):
        code.load()
    (tmp_path / "parts.py").write_text("SIZE = (\n")
    with pytest.raises(LocalError, match=r"^parts\.py:1: SyntaxError: '\(' was never closed$"):
        code.load()
    (tmp_path / "parts.py").write_text("")
    with pytest.raises(LocalError, match=r"^hello_code\.py:1 in <module>: ImportError: "):
        code.load()
    with pytest.raises(ConfigError, match=r"there is no module 'nothing'"):
        UserCode("nothing:topology").load()


def test_change_of_an_imported_module_is_noticed(code: UserCode, tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    code.load()
    assert code.folders() == {tmp_path}
    with code.watched() as changed:
        while not changed.wait(0.2):  # the watch starts in another thread
            (tmp_path / "parts.py").write_text("SIZE = 4\n")


def test_other_files_are_not_noticed(code: UserCode, tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    code.load()
    (tmp_path / "notes.txt").write_text("")
    with code.watched() as changed:
        (tmp_path / "notes.txt").write_text("changed")
        assert not changed.wait(1.0)


def test_only_files_of_the_folder_are_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_users(f"{tmp_path}/hello.py")
    assert is_users("hello.py")
    assert is_users(f"{tmp_path}/kstorm_jobs/hello.py")
    assert not is_users(f"{tmp_path}/.venv/lib/python3.11/site-packages/yaml/__init__.py")
    assert not is_users(f"{tmp_path}/shared/src/kstorm/topology/fields.py")
    assert not is_users("/usr/lib/python3.11/json/decoder.py")


@dataclass
class Log:
    """A worker with only a log."""

    log: Path
    component: str = "count"
    name: str = "count-0"

    def write(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(text)

    @property
    def process(self) -> Any:
        return SimpleNamespace(log_path=self.log)


def test_errors_in_logs_are_shown_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is the last one of the user's own code."""
    monkeypatch.chdir(tmp_path)
    log, errors = Log(tmp_path / "count-0.log"), LoggedErrors()
    workers: Any = [log]
    assert errors.new(workers) == []
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/kstorm/core/bolt_task.py", line 5, in work\n'
        f'  File "{tmp_path}/hello.py", line 7, in execute\n'
        "    number = json.loads(text)\n"
        '  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n'
        "json.decoder.JSONDecodeError: Expecting value\n"
    )
    line = json.dumps({"event": "component_error", "exception": trace.strip()}) + "\n"
    said = "count-0: hello.py:7 in execute: json.decoder.JSONDecodeError: Expecting value"
    log.write('{"event": "other"}\n' + line[:40])
    assert errors.new(workers) == []  # the line is not complete
    log.write(line[40:] + line)
    assert errors.new(workers) == [said]
    log.write(line)
    assert errors.new(workers) == []
    errors.forget()
    log.write(f"--- count-0, start 2: python\n{trace}")
    assert errors.new(workers) == [said]
