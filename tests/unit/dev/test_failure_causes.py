"""The cause of a failure, found in real output of programs."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from kstorm.dev.failure_causes import disk_full, explain_fetch, explain_run, tail

Usage = namedtuple("Usage", "total used free")

NO_NETWORK = [
    """error: Request failed after 3 retries in 4.1s
  cause: error sending request for url (https://index.example/simple/cffi/)
  cause: failed to lookup address information: Temporary failure in name resolution
""",
    """WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<x>: Failed to establish a new
connection: [Errno -3] Temporary failure in name resolution')'
ERROR: No matching distribution found for uv==0.13.9
""",
    "  cause: tcp connect error: Connection refused (os error 111)\n",
    """[warn] Host example not found. url=https://example/a.jar
\tServer access error at url https://example/a.jar (java.net.UnknownHostException: example)
""",
]
FULL = [
    "  cause: failed to copy file from a to b: No space left on device (os error 28)\n",
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
    "[2026-11-26] ERROR Error while writing to checkpoint file /x (java.io.IOException: No space left on device)\n",
]
NO_COMPILER = """error: Failed to build `psutil==7.2.2`
         building 'psutil._psutil_linux' extension
         error: [Errno 2] No such file or directory: 'x86_64-linux-gnu-gcc'
"""


@pytest.mark.parametrize("log", NO_NETWORK)
def test_missing_network_is_named(log: str, tmp_path: Path) -> None:
    found = explain_fetch(log, tmp_path)
    assert found is not None
    assert found.startswith("the registry does not answer. Check the network")
    assert "\n" not in found


@pytest.mark.parametrize("log", FULL)
def test_full_disk_is_named(log: str, tmp_path: Path) -> None:
    for explain in (explain_fetch, explain_run):
        assert explain(log, tmp_path) == disk_full(tmp_path)
    assert f"the disk of {tmp_path} is full: " in disk_full(tmp_path)


def test_full_disk_is_the_cause_if_the_log_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java crashes with SIGBUS, and `venv` hides the output of `ensurepip`."""
    log = "Error: Command ensurepip returned non-zero exit status 1.\n"
    assert explain_fetch(log, tmp_path) is None
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9, 3 * 2**20))
    assert explain_fetch(log, tmp_path / "not" / "there" / "yet") is not None
    assert "3 MB are left" in (explain_run(log, tmp_path) or "")


def test_missing_compiler_is_named(tmp_path: Path) -> None:
    found = explain_fetch(NO_COMPILER, tmp_path) or ""
    assert found.startswith("psutil==7.2.2 has no wheel for this Python, and there is no compiler")
    assert "build-essential" in found


def test_failed_compiler_is_not_called_missing(tmp_path: Path) -> None:
    log = "error: command '/usr/bin/gcc' failed with exit code 1\n"
    assert explain_fetch(log, tmp_path) is None


def test_folder_of_another_user_is_named(tmp_path: Path) -> None:
    log = "error: failed to create directory `/root/.cache/uv`: Permission denied (os error 13)\n"
    assert "this user may not write" in (explain_fetch(log, tmp_path) or "")


@pytest.mark.parametrize(
    "log",
    [
        "org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:21234: Address already in use.",
        "INFO binding to port /127.0.0.1:21234\nERROR java.net.BindException: Address already in use",
    ],
)
def test_used_port_is_named(log: str, tmp_path: Path) -> None:
    assert "another program uses its port 21234." in (explain_run(log, tmp_path) or "")


def test_tail_is_short_and_indented() -> None:
    assert tail("".join(f"line {n}\n" for n in range(100)), 2) == "  line 98\n  line 99\n"
