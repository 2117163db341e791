"""`./run chaos --topology all` as a user starts it: nothing is lost or duplicated."""

from pathlib import Path

import pytest

from tests.command import started

LONG = 480  # it took 256 s at a load of 35, and 112 s of CPU


@pytest.mark.long
@pytest.mark.timeout(LONG + 60)
def test_killing_each_role_keeps_streams_exact(tmp_path: Path) -> None:
    """The exit code is 0, and each count, window and pair is recomputed."""
    page = tmp_path / "page.md"
    arguments = ("--short", "--topology", "all", "--faults", "kill-together", "--report", page)
    with started("tests.chaos", *arguments, home=tmp_path) as chaos:
        assert chaos.process.wait(LONG) == 0, chaos.said
    said = page.read_text()
    assert "* met: lost: 0 of" in said
    assert "* met: duplicated: 0 of" in said
    assert "* met: counts too high: by 0 in total" in said
