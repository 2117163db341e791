"""Fixtures: a browser, and a running topology."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.ui.chromium import OPTIONS, find_chromium
from tests.ui.running import Running, running_words

AXE: Final = Path(__file__).parent / "vendor" / "axe.min.js"
"""Newer than the one that axe_playwright_python has."""
OpenPage = Callable[..., Page]

_SEEN_MS = 30_000
"""Maximum wait for a page's contents. Playwright's 5 s are too few next to other tests."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, for one module.

    While Playwright runs, its event loop occupies the thread. Any other test with an event loop
    would fail.
    """
    found = find_chromium()
    if isinstance(found, str):
        if os.environ.get("CI"):
            pytest.fail(found)
        pytest.skip(found)
    expect.set_options(timeout=_SEEN_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a URL in its own browser context.

    Errors of the page's scripts, and violations of its security policy, fail the test.
    """
    contexts, complaints = [], []

    def open(url: str, **options: Any) -> Page:
        contexts.append(context := browser.new_context(**options))
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"{url}: {error.stack or error}"))
        page.on(
            "console",
            lambda said: complaints.append(f"{url}: {said.text}") if _is_wrong(said) else None,
        )
        page.goto(url)
        return page

    yield open
    for context in contexts:
        context.close()
    assert complaints == []


def _is_wrong(said: ConsoleMessage) -> bool:
    """Return True for errors, except those of a server that the test has stopped."""
    return said.type == "error" and not said.text.startswith(_GONE)


_GONE = ("htmx: htmx:sse:error", "htmx: htmx:error: Failed to fetch", "Failed to load resource")


@pytest.fixture
def violations() -> Callable[[Page], list[str]]:
    """Return a function that lists what axe finds wrong on a page."""

    axe = Axe.from_file(AXE)

    def find(page: Page) -> list[str]:
        page.wait_for_load_state("load")  # the style sheet decides sizes and colours
        found = axe.run(
            page,
            options={
                "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
            },
        )
        return [
            f"{page.url}: {each['id']}: {each['help']}: {[node['html'] for node in each['nodes']]}"
            for each in found.response["violations"]
        ]

    return find


@pytest.fixture(scope="module")
def running(
    kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """The word count on real servers, with a steady stream of messages, and the web UI."""
    with running_words(
        f"ui-{uuid.uuid4().hex[:8]}", kafka, zookeeper, tmp_path_factory.mktemp("ui")
    ) as found:
        yield found
