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
_GRACE_SECS: Final = 15.0
"""After one look and one command have named it, the others have this time."""
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
    looks: dict[str, Callable[[], str]] = {
        "line": lambda: _status_line(stage),
        "page": lambda: _above_graph(stage),
        "status": lambda: _command(stage, "status", NAME),
        "causes": lambda: _command(stage, "causes", NAME),
    }
    named, found = re.compile(pattern), dict[str, Sighting]()
    ended = threading.Event()

    def look_for(name: str) -> None:
        while not ended.wait(_LOOK_SECS):
            said = next(filter(named.search, looks[name]().splitlines()), None)
            if said is not None:
                said = said.strip().replace(str(stage.directory), "…")
                found[name] = Sighting(round(time.monotonic() - begun, 1), said)
                return

    with ThreadPoolExecutor(len(looks)) as pool:
        for name in looks:
            pool.submit(look_for, name)
        while time.monotonic() - begun < _WAIT_SECS and len(found) < len(looks):
            time.sleep(_LOOK_SECS)
            if {"line", "page"} <= found.keys() and {"status", "causes"} & found.keys():
                newest = max(each.secs for each in found.values())
                if time.monotonic() - begun > newest + _GRACE_SECS:
                    break
        ended.set()
    return Named(**{name: found.get(name) for name in looks})


def await_calm(stage: Stage) -> str:
    """Wait until the web UI reports nothing. Return what it still reports, or empty."""
    deadline = time.monotonic() + _CALM_SECS
    calm = 0
    while True:
        shown = _api(stage)
        rest = [str(cause["said"]) for cause in shown["causes"] if cause["kind"] != "recovered"]
        if "are ready" not in shown["health"]:
            rest.insert(0, shown["health"])
        calm = 0 if rest else calm + 1
        if calm * _LOOK_SECS > 3:
            return ""
        if time.monotonic() > deadline:
            return "; ".join(rest)
        time.sleep(_LOOK_SECS)


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
