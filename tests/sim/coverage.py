"""Finds the lines of the protocol that a schedule reaches. Rare ones are hardly tested."""

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

T = TypeVar("T")

Line = tuple[str, int]
"""A module and a line number."""

MODULES: Final = (
    "kstorm.core.bolt_task",
    "kstorm.core.task_collectors",
    "kstorm.core.emission",
    "kstorm.core.engine.acker_engine",
    "kstorm.core.emitter",
    "kstorm.core.engine.bolt_engine",
    "kstorm.core.engine.checkpoints",
    "kstorm.core.engine.engine",
    "kstorm.core.engine.letters",
    "kstorm.core.engine.spout_engine",
    "kstorm.core.engine.units",
    "kstorm.core.lanes",
    "kstorm.core.ledger",
    "kstorm.core.outbox",
    "kstorm.core.recovery",
    "kstorm.core.rotating_map",
    "kstorm.core.spout_task",
    "kstorm.core.batch_routing",
    "kstorm.core.task_state",
    "kstorm.kafka.completed_ranges",
    "kstorm.kafka.coordinator",
    "kstorm.kafka.failures",
    "kstorm.kafka.finished_ranges",
    "kstorm.kafka.partition_manager",
    "kstorm.kafka.retry",
    "kstorm.kafka.spout",
    "kstorm.kafka.start_offset",
    "kstorm.kafka.offset_committer",
    "kstorm.runtime.zookeeper.lease",
)
"""Modules that run in the simulation exactly as in production."""


def traced(call: Callable[[], T], modules: tuple[str, ...] = MODULES) -> tuple[T, set[Line]]:
    """Call, and return the result and the reached lines of these modules. Ten times slower."""
    names = {module.__file__: name for name, module in _modules(modules).items()}
    reached: set[Line] = set()

    def on_call(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        name = names.get(frame.f_code.co_filename)
        if name is None:
            return None

        def on_line(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
            if event == "line":
                reached.add((name, frame.f_lineno))
            return on_line

        return on_line

    sys.settrace(on_call)
    try:
        return call(), reached
    finally:
        sys.settrace(None)


@cache
def all_lines(modules: tuple[str, ...] = MODULES) -> frozenset[Line]:
    """Return every line of these modules that is in a function."""
    found = _modules(modules).items()
    return frozenset(
        (name, line) for name, module in found for line in _lines(Path(str(module.__file__)))
    )


def source(line: Line) -> str:
    path = str(importlib.import_module(line[0]).__file__)
    return Path(path).read_text().splitlines()[line[1] - 1].strip()


def rarely(
    reached: Counter[Line], runs: int, share: float, modules: tuple[str, ...] = MODULES
) -> list[tuple[Line, int]]:
    """Return the lines that at most this share of runs reached, with their counts, rarest first."""
    counted = [
        (line, reached[line]) for line in all_lines(modules) if reached[line] <= share * runs
    ]
    return sorted(counted, key=lambda pair: (pair[1], pair[0]))


@cache
def _modules(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: importlib.import_module(name) for name in names}


def _lines(path: Path) -> Iterator[int]:
    waiting = [compile(path.read_text(), str(path), "exec")]
    while waiting:
        code = waiting.pop()
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        if code.co_flags & 0x2:  # CO_NEWLOCALS: a function, not a module or a class
            yield from {
                line
                for *_, line in code.co_lines()
                if line is not None and line > code.co_firstlineno
            }
