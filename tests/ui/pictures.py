"""`./run pictures`: takes the documentation's screenshots of the web UI, of a word count on real
servers.

It takes a minute or two. It kills one process, because a screenshot shows that too.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from playwright.sync_api import Browser, FloatRect, Page, expect, sync_playwright

from kstorm.dev.command_exit import run_command
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.errors import LocalError
from tests.integration.engine import SOURCE_PARTITIONS
from tests.ui.chromium import OPTIONS, find_chromium
from tests.ui.running import Running, running_words
from tests.ui.waiting import arrives

_ROOT: Final = Path(__file__).parents[2]
_PLACE: Final = _ROOT / "docs" / "ui"
_ROOT_AS: Final = """([root, prefix]) => document.querySelectorAll('.log .text').forEach(each => {
  each.textContent = each.textContent.replaceAll(prefix, '~/kstorm/.kstorm/venv').replaceAll(root, '~/kstorm')
})"""
"""Hides the location of this working copy and of its Python."""
_WATCHED: Final = 30
"""Samples before the first screenshot, so that the chart has data."""
_WIDTH: Final = 1280
_SEEN_MS: Final = 120_000
_UNREADABLE: Final = (
    b"the cow \xff jumped",
    b"over \xff the moon",
    b"again \xff",
    b"cut off \xe2\x82",
)
"""Messages that become dead letters, one per partition."""


def main() -> int:
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
            running_words("wordcount", kafka, zookeeper, place / "run", per_second=100) as running,
        ):
            _take(browser, running)
        browser.close()
    return 0


def _take(browser: Browser, running: Running) -> None:
    page = _open(browser, running.page, "light")
    arrives(page, _WATCHED, 300_000)
    _shoot(page, "topology")
    component = _open(browser, f"{running.page}/c/count", "dark")
    arrives(component, 2)
    _shoot(component, "component")
    message = _open(browser, f"{running.page}/m/{running.engine.source}/0/40", "light")
    expect(message.locator("#verdict")).to_have_text(re.compile("^done"), timeout=_SEEN_MS)
    _shoot(message, "message")
    _take_letters(browser, running)
    for name in ("sources", "audit", "events"):
        _shoot(_open(browser, f"{running.page}/{name}", "light"), name)
    _take_why(browser, running)  # before the kill, which leaves trees that are never complete
    word = page.locator(".status .word")
    expect(word).to_have_text("Healthy", timeout=_SEEN_MS)
    running.engine.worker("count-0").process.kill()
    expect(page.locator("#health")).to_contain_text("count-0", timeout=_SEEN_MS)
    _shoot(page, "killed", 420)
    expect(page.locator("#health")).to_contain_text("are ready", timeout=_SEEN_MS)
    expect(word).to_have_text("Healthy", timeout=_SEEN_MS)
    log = _open(browser, f"{running.page}/c/count/logs/count-0", "dark")
    expect(log.locator(".log")).to_have_count(2)
    log.evaluate(_ROOT_AS, [str(_ROOT), sys.prefix])
    _shoot(log, "logs", 720)


def _take_letters(browser: Browser, running: Running) -> None:
    """Take dead letters of undecodable messages, after some CLI commands on them."""
    producer = Producer({"bootstrap.servers": running.engine.bootstrap, "log_level": 0})
    for partition, value in enumerate(_UNREADABLE):
        producer.produce(running.engine.source, value, partition=partition)
    assert producer.flush(30) == 0
    letters = _open(browser, f"{running.page}/letters", "light")
    rows = letters.locator("#letters tbody tr")
    _until(letters, lambda: rows.count() == len(_UNREADABLE))
    _dlq(running, "discard", "2", "--note", "a test of ours")
    _dlq(running, "replay", "0", "--note", "the scheme knows it now", "--no-canary")
    events = _open(browser, f"{running.page}/events", "light")
    _until(events, lambda: events.get_by_text("failed again").count() > 0)
    letters.reload()
    _shoot(letters, "letters")
    rows.first.get_by_role("link").first.click()
    expect(letters.locator("#history tbody tr")).not_to_have_count(0)
    _shoot(letters, "letter")


def _take_why(browser: Browser, running: Running) -> None:
    """Take the page `why` while a process is paused, and a tree that waits for it."""
    sink = running.engine.worker("sink-0").process
    sink.pause()
    try:
        why = _open(browser, f"{running.page}/why", "light")
        waits = why.locator("#oldest tbody tr", has_text="sink")
        _until(why, lambda: waits.count() == SOURCE_PARTITIONS)
        _shoot(why, "why")
        newest = _open(
            browser,
            f"{running.page}/m/{running.engine.source}/0/{running.end_of_source() - 1}",
            "light",
        )
        _until(newest, lambda: newest.locator("#verdict", has_text="sink").count() > 0)
        arrives(newest, 1)
        _shoot(newest, "growing", 740)
    finally:
        sink.resume()


def _dlq(running: Running, *words: str) -> None:
    command = [
        sys.executable,
        "-m",
        "kstorm.cli",
        "dlq",
        *words,
        "--yes",
        "--topology",
        running.name,
    ]
    who = {"KSTORM_BOOTSTRAP_SERVERS": running.engine.bootstrap, "LOGNAME": "anna"}
    subprocess.run(command, check=True, timeout=_SEEN_MS / 1000, env=os.environ | who)


def _until(page: Page, there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SEEN_MS / 1000
    while not there():
        if time.monotonic() > deadline:
            raise LocalError(f"{page.url} does not show the subject of the screenshot")
        page.reload()


def _shoot(page: Page, name: str, most: int = 10_000) -> None:
    """Take the whole page, or its first `most` pixels."""
    height = page.evaluate("most => Math.min(most, document.documentElement.scrollHeight)", most)
    clip: FloatRect = {"x": 0, "y": 0, "width": _WIDTH, "height": height}
    page.screenshot(path=_PLACE / f"{name}.png", full_page=True, clip=clip)


def _open(browser: Browser, url: str, scheme: str) -> Page:
    dark = scheme == "dark"
    page = browser.new_context(
        color_scheme="dark" if dark else "light", viewport={"width": _WIDTH, "height": 300}
    ).new_page()
    page.goto(url)
    return page


if __name__ == "__main__":
    sys.exit(run_command("pictures", main))
