"""Shared fixtures for the tests of `kstorm.dev`."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

Eventually = Callable[[Callable[[], object]], None]


@pytest.fixture
def eventually() -> Eventually:
    """Return a function that waits until a condition is true, and fails after 20 seconds."""

    def wait_until(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true within 20 s"
            time.sleep(0.01)

    return wait_until


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give kstorm its own empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("KSTORM_CACHE", str(folder))
    return folder
