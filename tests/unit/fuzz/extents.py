"""How much memory a call takes, in C too, and how many values there are in what it makes."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

TO_SPARE: Final = 100_000_000
"""Bytes: what decoding anything may take."""

_PEAK = Path("/proc/self/clear_refs")


def memory_of(call: Callable[[], Any]) -> int:
    """The most bytes that a call takes, beyond what was free; what C libraries take is known on Linux alone."""
    if not _PEAK.exists():
        return _traced(call)
    before = _resident("VmRSS")
    _PEAK.write_text("5")  # the peak is measured anew
    call()
    return _resident("VmHWM") - before


def _traced(call: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _resident(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def counted(value: Any) -> int:
    """Values, those within others and the keys of dicts too."""
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(counted, value.values()))
    return 1 + sum(map(counted, value)) if isinstance(value, list | tuple) else 1
