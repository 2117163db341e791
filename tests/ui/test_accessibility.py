"""The web UI without a mouse, with a screen reader, in dark mode, on a narrow screen.

WCAG 2.2 AA, as far as axe can check it. Tests of our own cover the rest.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kstorm_ui.sources.process_logs import LogLife
from tests.ui.conftest import OpenPage
from tests.ui.server import MadeUp, serving, status, topology
from tests.ui.waiting import arrives, press_until

_PAGES = (
    "/",
    "/t/wordcount",
    "/t/wordcount?window=all",
    "/t/wordcount/c/count",
    "/t/wordcount/c/sentences",
    "/t/wordcount/sources",
    "/t/wordcount/letters",
    "/t/wordcount/why",
    "/t/wordcount/logs",
    "/t/wordcount/c/count/logs/count-0",
    "/t/wordcount/records/sentences",
    "/t/wordcount/find",
    "/t/wordcount/why?message=nonsense",
    "/t/wordcount/m/sentences/0/1",
    "/t/wordcount/do/drain",
    "/t/wordcount/do/scale",
    "/t/nothing",
)
_COMPONENTS = {"sentences": "spout", "split": "bolt", "count": "bolt", "__acker": "acker"}
_EDGES = [("sentences", "split"), ("split", "count")]


def made_up() -> MadeUp:
    """Return a topology with errors, remarks, an unready process and an edge that is held back."""
    wrong: dict[str, Any] = {
        "errors": 2,
        "last_error": "KeyError",
        "last_error_task": 0,
        "last_error_age": 70.0,
    }
    work: dict[str, Any] = {
        "executed": 1200,
        "failed": 3,
        "busy_seconds": 1.0,
        "waits": {"producer queue": 0.5},
        "own": {"words": 17.0},
    }
    count = status(
        **wrong,
        **work,
        by_task={"0": {"executed": 1200}},
        watermarks={"0": {"watermark": 1_700_000_000_000, "idle": False, "waits_for": "task 1"}},
        not_ready="tasks [0] are being recovered",
    )
    sentences = status(
        "spout",
        emitted=300,
        acked=290,
        source={"lag": 12.0},
        active=True,
        remark="it was told to rest",
    )
    made = MadeUp(
        topology("wordcount", _COMPONENTS, _EDGES, {"count": count, "sentences": sentences})
    )
    line = '{"timestamp": "2026-11-27T09:00:00Z", "level": "%s", "event": "a line"}'
    made.lives = [LogLife("start 1", [line % level for level in ("error", "warning")], False)]
    return made


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(made_up(), actions=frozenset({"drain"}), show_logs=True) as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing(
    url: str, open_page: OpenPage, violations: Callable[[Page], list[str]], scheme: str
) -> None:
    """On all pages, also with the chart's table open."""
    page = open_page(url, color_scheme=scheme)
    found = []
    for path in _PAGES:
        page.goto(url + path)
        for details in page.locator("details").all():
            details.locator("summary").click()
        found += violations(page)
    assert found == []


def test_axe_finds_planted_violations(
    url: str, open_page: OpenPage, violations: Callable[[Page], list[str]]
) -> None:
    """Text with too little contrast, and a link without a name."""
    page = open_page(f"{url}/t/wordcount")
    page.evaluate("document.querySelector('#chart-title').style.color = '#eee'")
    page.evaluate(
        "document.querySelector('#chart-title').append(Object.assign(document.createElement('a'), {href: '/'}))"
    )
    ids = {line.split(": ")[1] for line in violations(page)}
    assert {"color-contrast", "link-name"} <= ids


def test_the_keyboard_is_enough(url: str, open_page: OpenPage) -> None:
    """From the start page to a component: skip link, links in tables and graph."""
    page = open_page(url)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    press_until(page, "Tab", page.get_by_role("link", name="wordcount"))
    page.keyboard.press("Enter")
    expect(page).to_have_title("wordcount · kstorm")
    press_until(page, "Tab", page.locator("#graph").get_by_role("link", name=re.compile("^count ")))
    page.keyboard.press("Enter")
    expect(page).to_have_title("count · wordcount · kstorm")


def test_table_sorted_by_keyboard_stays_sorted(url: str, open_page: OpenPage) -> None:
    """Also when fragments arrive. The focus stays too."""
    page = open_page(f"{url}/t/wordcount?window=all")
    button = page.locator("#components").get_by_role("button", name="executed")
    press_until(page, "Tab", button)
    page.keyboard.press("Enter")
    heading = page.locator("#components th", has=page.get_by_role("button", name="executed"))
    names = page.locator("#components tbody th")
    expect(heading).to_have_attribute("aria-sort", "descending")
    expect(names.first).to_have_text("count")
    arrives(page, 3)
    expect(names.first).to_have_text("count")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    arrives(page, 2)
    expect(names.last).to_have_text("count")


def test_health_is_announced_only_when_it_changes(url: str, open_page: OpenPage) -> None:
    """By a polite live region, which is not modified otherwise."""
    page = open_page(f"{url}/t/wordcount")
    health = page.locator("#health")
    expect(health).to_contain_text("count-0: tasks [0] are being recovered")
    assert health.get_attribute("role") == "status"
    page.evaluate(
        "window.said = 0; new MutationObserver(found => { window.said += found.length })"
        ".observe(document.getElementById('health'), {childList: true, characterData: true, subtree: true})"
    )
    arrives(page, 4)
    assert page.evaluate("window.said") == 0


def test_no_motion_if_reduced_motion_is_preferred(url: str, open_page: OpenPage) -> None:
    """An edge that is held back is dashed either way, but animated only if motion is allowed."""
    moving = "getComputedStyle(document.querySelector('#graph .held path')).animationName"
    still = open_page(f"{url}/t/wordcount", reduced_motion="reduce")
    expect(still.locator("#graph .held")).to_have_count(1)
    assert still.evaluate(moving) == "none"
    assert (
        open_page(f"{url}/t/wordcount", reduced_motion="no-preference").evaluate(moving) == "held"
    )


def test_narrow_screen_scrolls_only_vertically(url: str, open_page: OpenPage) -> None:
    """320 pixels, or 1280 at four times the size. Wide tables and graphs scroll separately."""
    page = open_page(f"{url}/t/wordcount", viewport={"width": 320, "height": 640})
    arrives(page, 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_counts_are_shown_without_scripts(url: str, open_page: OpenPage) -> None:
    page = open_page(f"{url}/t/wordcount", java_script_enabled=False)
    expect(page.locator("#components tbody")).to_have_count(4)
    expect(page.locator("#components .error")).to_have_text("KeyError in task 0 (1 min ago)")
