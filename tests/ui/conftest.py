"""A browser, and a topology that runs."""

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from kstorm.local.cluster import LocalProcesses
from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.integration import topologies
from tests.integration.engine import SINK_PARTITIONS, SOURCE_PARTITIONS, Engine, make_topics
from tests.ui.chromium import find_chromium
from tests.ui.running import Running, page_process, url_of

_ROOT = Path(__file__).parents[2]
OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Give Debian's Chromium."""
    found = find_chromium()
    if isinstance(found, str):
        if os.environ.get("CI"):
            pytest.fail(found)
        pytest.skip(found)
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a URL in a browser of its own. What the page's scripts complain of fails the test, and so does
    what its policy forbids."""
    contexts, complaints = [], []

    def open(url: str, **options: Any) -> Page:
        contexts.append(context := browser.new_context(**options))
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"{url}: {error}"))
        page.on("console", lambda said: complaints.append(f"{url}: {said.text}") if _is_wrong(said) else None)
        page.goto(url)
        return page

    yield open
    for context in contexts:
        context.close()
    assert complaints == []


def _is_wrong(said: ConsoleMessage) -> bool:
    """A server that a test has stopped is nothing that its page did wrong."""
    return said.type == "error" and not said.text.startswith(("htmx: htmx:sse:error", "Failed to load resource"))


@pytest.fixture
def violations() -> Callable[[Page], list[str]]:
    """Return a function that says what axe finds wrong with a page."""

    def find(page: Page) -> list[str]:
        found = Axe().run(
            page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
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
    """Run the word count on real servers, with messages all the time, and the page beside it."""
    name = f"ui-{uuid.uuid4().hex[:8]}"
    _, source, sink = topologies.names(name)
    workdir = tmp_path_factory.mktemp("ui")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KSTORM_TEST_PREFIX", name)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])))
        make_topics(kafka.bootstrap, {source: SOURCE_PARTITIONS, sink: SINK_PARTITIONS})
        reference = "tests.integration.topologies:wordcount"
        # Dead for some seconds, so that the page has to see it.
        processes = LocalProcesses(
            topologies.wordcount(), reference, kafka.bootstrap, zookeeper.connect, workdir, restart_delay=5.0
        )
        page = page_process(workdir)
        engine = Engine(processes, kafka.bootstrap, source, sink)
        ended = threading.Event()
        feeder = threading.Thread(target=_feed, args=(engine, ended), daemon=True)
        try:
            processes.start()
            page.start()
            processes.wait_ready(90)
            feeder.start()
            yield Running(name, url_of(page), engine)
        finally:
            ended.set()
            page.stop()
            processes.kill()
            if feeder.ident:
                feeder.join(70)


def _feed(engine: Engine, ended: threading.Event) -> None:
    while not ended.wait(0.2):
        engine.produce(f"the cow jumped over the moon again {number}" for number in range(20))
