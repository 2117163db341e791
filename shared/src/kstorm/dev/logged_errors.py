"""Finds the errors of the user's code in the logs of a topology's processes."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kstorm.dev.local_processes import Worker
from kstorm.dev.user_files import in_one_line

_TRACE: Final = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*\S.*\n", re.MULTILINE
)


class LoggedErrors:
    """Reads on in each log. An error of the same component and line is returned once."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}
        self._known: set[tuple[str, str]] = set()

    def new(self, workers: Iterable[Worker]) -> list[str]:
        """Return a line for each error since the last call: `count-0: hello.py:17 in execute:
        KeyError: 'word'`."""
        found = []
        for worker in workers:
            for trace in _traces(self._new_text(worker.process.log_path)):
                line = in_one_line(trace)
                place = (worker.component, line.partition(": ")[0])
                if place not in self._known:
                    self._known.add(place)
                    found.append(f"{worker.name}: {line}")
        return found

    def forget(self) -> None:
        """Return errors again that were returned before."""
        self._known.clear()

    def _new_text(self, log: Path) -> str:
        begin = self._read.get(log, 0)
        try:
            with log.open("rb") as file:
                file.seek(begin)
                data = file.read()
        except FileNotFoundError:
            return ""
        whole = data[: data.rfind(b"\n") + 1]
        self._read[log] = begin + len(whole)
        return whole.decode(errors="replace")


def _traces(text: str) -> Iterator[str]:
    """Yield the stack traces in a log, from its structured lines and between them."""
    for line in text.splitlines():
        if line.startswith("{") and '"exception"' in line:
            try:
                yield str(json.loads(line)["exception"])
            except (ValueError, KeyError):
                continue
    for found in _TRACE.finditer(text):
        yield found[0]
