"""A command of the set-up, with real child processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kstorm.dev.logged_command import LoggedCommand
from tests.unit.dev.conftest import Eventually
from tests.unit.dev.test_processes import gone


def test_output_goes_to_the_log_and_to_the_caller(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    lines: list[str] = []
    with LoggedCommand(["sh", "-c", "echo one; echo two >&2; printf rest; exit 3"], log) as it:
        while it.returncode is None:
            time.sleep(0.01)
            lines += it.new_lines()
        lines += it.new_lines()
        assert (it.returncode, it.name, lines) == (3, "sh", ["one", "two"])
        assert it.written() == "one\ntwo\nrest"
    assert log.read_text().splitlines()[:2] == [
        "before",
        "$ sh -c echo one; echo two >&2; printf rest; exit 3",
    ]


def test_end_of_the_block_ends_the_command_and_its_children(
    tmp_path: Path, eventually: Eventually
) -> None:
    log = tmp_path / "log"
    it = LoggedCommand(["sh", "-c", "sleep 600 & echo $!; wait"], log)

    def interrupted() -> None:
        with it:
            eventually(it.new_lines)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    pid = int(it.written().split()[0])
    eventually(lambda: gone(pid))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_command_ends_with_its_killed_parent(tmp_path: Path, eventually: Eventually) -> None:
    program = (
        "import sys, time; from pathlib import Path; from kstorm.dev.logged_command import LoggedCommand\n"
        "with LoggedCommand(['sh', '-c', 'echo $$; exec sleep 600'], Path(sys.argv[1])): time.sleep(600)"
    )
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", program, log]) as parent:
        eventually(lambda: log.exists() and len(log.read_text().splitlines()) == 2)
        parent.send_signal(signal.SIGKILL)
    pid = int(log.read_text().splitlines()[1])
    assert pid != os.getpid()
    eventually(lambda: gone(pid))
