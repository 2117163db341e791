"""Waiting in a browser."""

from typing import Final

import pytest
from playwright.sync_api import Locator, Page

_PATIENCE_MS: Final = 60_000
_COUNT: Final = """() => {
if (window.arrived === undefined) {
  document.addEventListener('htmx:sse:after:message', event => { if (!event.detail.message.event) window.arrived += 1; });
}
window.arrived = 0;
}
"""


def arrives(page: Page, pieces: int, patience_ms: float = _PATIENCE_MS) -> None:
    """Wait until `pieces` HTML fragments were swapped in."""
    page.evaluate(_COUNT)
    page.wait_for_function("pieces => window.arrived >= pieces", arg=pieces, timeout=patience_ms)


def press_until(page: Page, key: str, wanted: Locator) -> None:
    """Press a key until `wanted` has the focus."""
    for _ in range(60):
        page.keyboard.press(key)
        if wanted.evaluate("found => found === document.activeElement"):
            return
    pytest.fail(f"{wanted} is not reached by {key}")
