"""`./run pictures`: the pictures of the page in the documentation, taken of a word count that runs on real servers.

It takes a minute or two. A process is killed on the way, since that is to be seen too.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, expect, sync_playwright

from kstorm.errors import LocalError
from kstorm.local.cli import run_command
from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.ui.chromium import OPTIONS, find_chromium
from tests.ui.running import Running, running_words
from tests.ui.waiting import arrives

_PLACE: Final = Path(__file__).parents[2] / "docs" / "ui"
_WATCHED: Final = 30
"""Samples until the first picture, so that there is something to see."""


def main() -> int:
    """Take them all."""
    chromium = find_chromium()
    if isinstance(chromium, str):
        raise LocalError(chromium)
    _PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        place = Path(folder)
        browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        with (
            EmbeddedKafka(place) as kafka,
            EmbeddedZooKeeper(place) as zookeeper,
            running_words("wordcount", kafka, zookeeper, place / "run") as running,
        ):
            _take(browser, running)
        browser.close()
    return 0


def _take(browser: Browser, running: Running) -> None:
    page = _open(browser, running.page, "light")
    arrives(page, _WATCHED, 300_000)
    page.screenshot(path=_PLACE / "topology.png", full_page=True)
    component = _open(browser, f"{running.page}/c/count", "dark")
    arrives(component, 2)
    component.screenshot(path=_PLACE / "component.png", full_page=True)
    running.engine.worker("count-0").process.kill()
    expect(page.locator("#health")).to_contain_text("count-0", timeout=60_000)
    page.screenshot(path=_PLACE / "killed.png", clip={"x": 0, "y": 0, "width": 1200, "height": 400})


def _open(browser: Browser, url: str, scheme: str) -> Page:
    dark = scheme == "dark"
    page = browser.new_context(
        color_scheme="dark" if dark else "light", viewport={"width": 1280, "height": 800}
    ).new_page()
    page.goto(url)
    return page


if __name__ == "__main__":
    sys.exit(run_command("pictures", main))
