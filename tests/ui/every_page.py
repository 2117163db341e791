"""`python -m tests.ui.every_page URL FOLDER`: takes a screenshot of every page of a topology.

URL is a topology's page of a running web UI. Each page is taken in light and dark, for a desktop and
for a phone. Prints the pages that are wider than the screen.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, sync_playwright

from kstorm.dev.command_exit import run_command
from kstorm.errors import LocalError
from tests.ui.chromium import OPTIONS, find_chromium

_WIDTHS: Final = (1280, 390)
_MOST_HEIGHT: Final = 2400
_SETTLED_MS: Final = 1500
_PAGE_MS: Final = 60_000
_WIDER: Final = "() => document.documentElement.scrollWidth - window.innerWidth"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--token", help="the token of a web UI in a release")
    parser.add_argument("--only", action="append", help="the name of a page, repeatable")
    options = parser.parse_args()
    chromium = find_chromium()
    if isinstance(chromium, str):
        raise LocalError(chromium)
    options.folder.mkdir(parents=True, exist_ok=True)
    login = {"Authorization": f"Bearer {options.token}"} if options.token else {}
    pages = _pages(options.url.rstrip("/"), login)
    if options.only:
        pages = {name: pages[name] for name in options.only}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        wide = [
            name for name, url in pages.items() if _take(browser, name, url, options.folder, login)
        ]
        browser.close()
    for name in wide:
        print(f"{name} is wider than the screen")
    return 1 if wide else 0


def _take(browser: Browser, name: str, url: str, folder: Path, login: Mapping[str, str]) -> bool:
    """Return True if the page is wider than the screen."""
    is_wide = False
    for width in _WIDTHS:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, extra_http_headers=dict(login)
        )
        page = context.new_page()
        page.goto(url, timeout=_PAGE_MS)
        page.wait_for_timeout(_SETTLED_MS)
        is_wide |= page.evaluate(_WIDER) > 0
        height = min(_MOST_HEIGHT, page.evaluate("() => document.documentElement.scrollHeight"))
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            page.screenshot(
                path=folder / f"{name}-{width}-{scheme}.png",
                full_page=True,
                clip={"x": 0, "y": 0, "width": width, "height": height},
            )
        context.close()
    return is_wide


def _pages(url: str, login: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses by name. Letters and messages are the newest ones, if there are any."""
    root, _, name = url.rpartition("/t/")
    get = partial(_json, login=login)
    api = f"{root}/api/v1/t/{name}"
    components = [each["component"] for each in get(api)["components"]]
    pages = {"topologies": f"{root}/", "topology": url, "component": f"{url}/c/{components[-2]}"}
    names = ("logs", "sources", "letters", "events", "why", "audit")
    pages |= {each: f"{url}/{each}" for each in names}
    pages["not-found"] = f"{url}/c/missing"
    pages["find"] = f"{url}/find?q=key-1"
    process = get(f"{api}/c/{components[-2]}")["processes"][0]["name"]
    pages["log"] = f"{url}/c/{components[-2]}/logs/{process}"
    topics = get(f"{api}/sources").get("topics", {})
    for topic in [each for each, use in topics.items() if use.startswith("read by")][:1]:
        pages["records"] = f"{url}/records/{topic}"
        pages["message"] = f"{url}/m/{topic}/0/1"
    letters = get(f"{api}/letters").get("letters") or ()
    if letters:
        pages["letter"] = f"{url}/letters/{letters[0]['number']}"
    return pages


def _json(url: str, login: Mapping[str, str]) -> dict[str, Any]:
    """Return a page's JSON. A page that cannot be answered now has none."""
    try:
        request = urllib.request.Request(url, headers=dict(login))
        with urllib.request.urlopen(request, timeout=_PAGE_MS / 1000) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError:
        return {}


if __name__ == "__main__":
    sys.exit(run_command("every page", main))
