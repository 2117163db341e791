"""The page of a log: lines stay text, and only allowed viewers see them."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from kstorm_ui.sources.process_logs import LogLife
from tests.ui.conftest import OpenPage
from tests.ui.server import MadeUp, serving, topology

pytestmark = pytest.mark.slow

EVIL = "<img src=x onerror=alert(1)>\u202egnp\x1b]0;x\x07</pre><script>alert(1)</script>"


def made_up() -> MadeUp:
    source = MadeUp(topology("words", {"lines": "spout", "count": "bolt"}, []))
    source.lives = [
        LogLife("start 2", ["ready", EVIL], False),
        LogLife("start 1", ["Traceback", "the last words"], True),
        LogLife("start 0", [], False, "it is gone"),
    ]
    return source


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """URL of a web UI that may show logs."""
    with serving(made_up(), show_logs=True) as found:
        yield found


def test_process_links_to_its_log(url: str, open_page: OpenPage) -> None:
    """The latest run first, then the one before. Lines are text, and control characters are made
    visible."""
    page = open_page(f"{url}/t/words/c/count")
    page.get_by_role("link", name="Log of count-0").click()
    expect(page).to_have_title("Log of count-0 · words · kstorm")
    lives = page.locator(".log")
    expect(lives).to_have_count(2)
    expect(lives.first).to_contain_text("\\u202egnp\\u001b]0;x\\u0007</pre><script>")
    assert lives.last.locator(".text").all_inner_texts() == ["Traceback", "the last words"]
    expect(page.locator("main")).to_contain_text("The last 2 lines.")
    expect(page.locator(".bad")).to_have_text("it is gone")
    assert page.locator("img").count() == 0
    assert "\u202e" not in page.content()
    told = page.request.get(page.url.replace("/t/", "/api/v1/t/"))
    assert [life["lines"] for life in told.json()["lives"]] == [
        ["ready", EVIL],
        ["Traceback", "the last words"],
        [],
    ]
    assert "\u202e" not in told.text()


@pytest.mark.parametrize(
    "path", ["c/count/logs/lines-0", "c/count/logs/..%2Fcount-0", "c/nobody/logs/count-0"]
)
def test_log_exists_only_for_processes_that_were_seen(
    url: str, open_page: OpenPage, path: str
) -> None:
    """The process belongs to the component of the URL, and no other file is served."""
    page = open_page(url)
    for place in ("/t/words", "/api/v1/t/words"):
        assert page.request.get(f"{url}{place}/{path}").status == 404


def test_logs_are_hidden_by_default(open_page: OpenPage) -> None:
    """On the page and in JSON. No link leads there."""
    with serving(made_up()) as url:
        page = open_page(f"{url}/t/words/c/count")
        expect(page.locator("#processes")).to_contain_text("count-0")
        assert page.get_by_role("link", name="Log of count-0").count() == 0
        for place in ("/t/words", "/api/v1/t/words"):
            answer = page.request.get(f"{url}{place}/c/count/logs/count-0")
            assert (answer.status, "KSTORM_UI_LOGS" in answer.text()) == (403, True)
            assert "the last words" not in answer.text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_log(
    url: str, open_page: OpenPage, violations: Callable[[Page], list[str]], scheme: str
) -> None:
    page = open_page(f"{url}/t/words/c/count", color_scheme=scheme)
    found = violations(page)
    page.goto(f"{url}/t/words/c/count/logs/count-0")
    assert [*found, *violations(page)] == []
