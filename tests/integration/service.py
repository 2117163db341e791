"""Runs a service that cannot start, and returns its output."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def start_service(
    kind: str, tmp_path: Path, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run `kstorm_<kind>` for the word count until it exits."""
    settings = {
        "KSTORM_TOPOLOGY": "tests.integration.topologies:wordcount",
        "KSTORM_TEST_PREFIX": "unused",
        "KSTORM_DATA_DIR": str(tmp_path / "data"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
        **environment,
    }
    return subprocess.run(
        [sys.executable, "-m", f"kstorm_{kind}"],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=120,
    )


def assert_refused(ended: "subprocess.CompletedProcess[str]", *says: str) -> None:
    """Assert exit code 2, and that the last line of the output contains these texts."""
    last = ended.stderr.strip().splitlines()[-1]
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    for part in says:
        assert part in last
