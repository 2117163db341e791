"""A local server that ends in the middle of a run: it is started again, or the run ends with the reason."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kstorm.dev.command_exit import run_command
from kstorm.dev.embedded_server import EmbeddedServer, ServerEndedError
from tests.unit.dev.conftest import Eventually

LIVES = "sleep 600"


class Server(EmbeddedServer):
    """A shell script in place of a Java server."""

    script = LIVES

    def _prepare(self) -> Sequence[str | Path]:
        return [self.script]

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        return ["sh", "-c", *arguments]

    def _serves(self) -> bool:
        return self.process.alive


def server(folder: Path, script: str = LIVES) -> Server:
    made = Server("kafka", folder, heap="", start_timeout=10.0)
    made.script = script
    return made


def end(running: Server, eventually: Eventually) -> None:
    running.process._signal(9)
    eventually(lambda: not running.process.alive)


def test_a_killed_server_is_started_again(tmp_path: Path, eventually: Eventually) -> None:
    said: list[str] = []
    with server(tmp_path) as running:
        running.look_after(said.append)
        assert said == []
        end(running, eventually)
        running.look_after(said.append)
        assert running.process.alive
        (told,) = said
        assert told.startswith("kafka ended with exit code -9; its log ")
        assert told.endswith("kafka.log: it is started again")
        running.stop()
        running.look_after(said.append)
        assert not running.process.alive


def test_a_full_disk_ends_the_run_with_exit_code_1(
    tmp_path: Path, eventually: Eventually, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> int:
        full = "echo 'java.io.IOException: No space left on device'; sleep 600"
        with server(tmp_path, full) as running:
            eventually(lambda: "No space left" in running.process.log_tail())
            end(running, eventually)
            running.look_after(print)
        return 0

    assert run_command("kstorm dev", run) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(
        f"kstorm dev: kafka ended with exit code -9: the disk of {tmp_path / 'kafka'} is full: "
    )


def test_a_server_that_does_not_start_again_ends_the_run(
    tmp_path: Path, eventually: Eventually
) -> None:
    once = f"test -e {tmp_path}/begun && exit 3; touch {tmp_path}/begun; sleep 600"
    with server(tmp_path, once) as running:
        eventually((tmp_path / "begun").exists)
        end(running, eventually)
        running._serves = lambda: False  # type: ignore[method-assign]
        with pytest.raises(ServerEndedError, match=r"^kafka does not start again: kafka ended"):
            running.look_after(print)
