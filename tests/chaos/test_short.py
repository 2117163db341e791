"""`./run chaos --short` as a user starts it: each role is killed once, and nothing is lost."""

from pathlib import Path

import pytest

from tests.chaos.tested_topology import SUBJECTS, WORD_COUNT
from tests.command import started

LONG = 480  # it takes three minutes on an idle machine


@pytest.mark.slow
@pytest.mark.timeout(LONG + 60)
def test_killing_each_role_loses_nothing(tmp_path: Path) -> None:
    """The exit code is 0, the table has a row per role, and the large log files are deleted."""
    page = tmp_path / "page.md"
    with started("tests.chaos", "--short", "--report", page, home=tmp_path) as chaos:
        assert chaos.process.wait(LONG) == 0, chaos.said
    rows = [
        line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| kill-")
    ]
    assert [row[0] for row in rows] == [f"| kill-{role}" for role in SUBJECTS[WORD_COUNT].roles]
    for _, runs, messages, lost, *_ in rows:
        assert (runs, lost) == ("1", "0")
        assert int(messages.replace(",", "")) > 0
    assert "* met: lost: 0 of" in page.read_text()
    run = next((tmp_path / "runs").iterdir())
    assert not {"kafka", "zookeeper", "data"} & {child.name for child in run.iterdir()}
