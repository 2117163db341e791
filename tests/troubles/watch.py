"""Watch the web UI and the command until they name a trouble."""

import html
import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from msgspec import Struct

from tests.troubles.stage import Stage
from tests.troubles.topology import NAME

_LOOK_SECS: Final = 0.25
_PAGE_SECS: Final = 10.0
_WAIT_SECS: Final = 90.0
_CALM_SECS: Final = 180.0
_TAG: Final = re.compile(r"<[^>]+>")
_SPACE: Final = re.compile(r"\s+")


class Sighting(Struct, frozen=True):
    """The first time that something named a trouble."""

    secs: float
    """Seconds from the trouble to the answer."""
    said: str
    """The sentence."""


class Named(Struct, frozen=True):
    """Who named a trouble, and when. None: not within the time."""

    line: Sighting | None
    """The status line, which is on top of each page."""
    page: Sighting | None
    """The topology's page above its graph: the status line, or *What holds it back*."""
    status: Sighting | None
    """`kstorm status NAME`."""
    causes: Sighting | None
    """`kstorm causes NAME`."""


def watch(stage: Stage, pattern: str, begun: float) -> Named:
    """Ask all four until each has named the trouble, or the time is over."""
    looks: list[Callable[[], str]] = [
        lambda: _status_line(stage),
        lambda: _above_graph(stage),
        lambda: _command(stage, "status", NAME),
        lambda: _command(stage, "causes", NAME),
    ]
    with ThreadPoolExecutor(len(looks)) as pool:
        found = list(pool.map(lambda look: _first(look, re.compile(pattern), begun), looks))
    return Named(*found)


def await_calm(stage: Stage) -> str:
    """Wait until the web UI reports nothing. Return what it still reports, or empty."""
    deadline = time.monotonic() + _CALM_SECS
    calm = 0
    while True:
        shown = _api(stage)
        rest = [str(cause["said"]) for cause in shown["causes"]]
        if "are ready" not in shown["health"]:
            rest.insert(0, shown["health"])
        calm = 0 if rest else calm + 1
        if calm * _LOOK_SECS > 3:
            return ""
        if time.monotonic() > deadline:
            return "; ".join(rest)
        time.sleep(_LOOK_SECS)


def _first(look: Callable[[], str], named: re.Pattern[str], begun: float) -> Sighting | None:
    pause = threading.Event()
    while time.monotonic() - begun < _WAIT_SECS:
        for line in look().splitlines():
            if named.search(line):
                return Sighting(round(time.monotonic() - begun, 1), line.strip())
        pause.wait(_LOOK_SECS)
    return None


def _status_line(stage: Stage) -> str:
    """Return the status line of another page than the topology's."""
    return _section(_get(f"{stage.url}/c/store"), 'class="status"')


def _above_graph(stage: Stage) -> str:
    """Return the status line and the causes on the topology's page."""
    page = _get(stage.url)
    return "\n".join([_section(page, 'class="status"'), _section(page, 'id="held"')])


def _section(page: str, mark: str) -> str:
    found = re.search(rf"<section [^>]*{mark}.*?</section>", page, re.DOTALL)
    if not found:
        return ""
    lines = re.split(r"</(?:p|li|div|ul|summary)>", found[0])
    return "\n".join(_SPACE.sub(" ", html.unescape(_TAG.sub(" ", line))) for line in lines)


def _command(stage: Stage, *words: str) -> str:
    done = stage.kstorm(*words)
    return f"{done.stdout}\n{done.stderr}"


def _api(stage: Stage) -> dict[str, Any]:
    shown = json.loads(_get(stage.url.replace("/t/", "/api/v1/t/")))
    assert isinstance(shown, dict)
    return shown


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=_PAGE_SECS) as answer:
        text: str = answer.read().decode()
        return text
