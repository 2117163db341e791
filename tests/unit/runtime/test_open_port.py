"""The HTTP port of a process that starts again in place."""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from http.client import RemoteDisconnected
from pathlib import Path

import pytest

from kstorm.dev.free_ports import reserve_port
from tests.unit.runtime.restarting import SLOW_SECS


def ask(port: int, page: str) -> tuple[int, str]:
    """Return the answer to a probe. Raises `URLError` if the port is closed.

    A connection that the process has already accepted ends with it. Such a probe asks again.
    """
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (ConnectionResetError, RemoteDisconnected):
        return ask(port, page)


def test_the_port_stays_open_while_a_process_starts_again(tmp_path: Path) -> None:
    """Liveness answers all the time, and readiness fails until the service itself listens."""
    port = reserve_port()
    command = [sys.executable, "-m", "tests.unit.runtime.restarting", str(tmp_path), str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "serves\n"
            assert ask(port, "readyz") == (200, "ok\n")
            process.stdin.write("again\n")
            process.stdin.flush()
            deadline, waited = time.monotonic() + 60, 0
            while (ready := ask(port, "readyz"))[0] != 200 or not waited:
                assert time.monotonic() < deadline
                if ready[0] == 503:
                    waited += 1
                    assert ready[1] == "starts again, because Kafka was unreachable\n"
                assert ask(port, "livez") == (200, "ok\n")
                time.sleep(SLOW_SECS / 20)
            while (line := process.stdout.readline()) != "serves\n":
                assert line, "the process has ended"
            process.stdin.write("end\n")
            process.stdin.flush()
            assert process.stdout.readline() == "closed\n"
            with pytest.raises(urllib.error.URLError, match="refused"):
                ask(port, "livez")
        finally:
            process.kill()
