"""Parses log lines: time, level and text, from JSON or plain lines."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from kstorm.errors import FrameError
from kstorm.texts import decode_json

LEVELS: Final = ("debug", "info", "warning", "error")
NEAR_SECS: Final = 5
"""Lines of a second are shown with the lines of this many seconds before and after it."""
_NAMES: Final = {"warn": "warning", "critical": "error", "fatal": "error", "exception": "error"}
_QUIET: Final = frozenset(
    {"event", "level", "timestamp", "service", "component", "instance", "pid"}
)
_PLAIN: Final = re.compile(
    r"^\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?)\]?[\s:\[]+([A-Za-z]+)\b\]?:?\s*"
)
_ORDINARY: Final = re.compile(
    "rebalance in progress|is rebalancing|group rebalance|"
    "generation id is not valid|REBALANCE_IN_PROGRESS|ILLEGAL_GENERATION",
    re.IGNORECASE,
)
"""Texts of Kafka's clients in an ordinary rebalance, which they log as warnings or errors."""


class LogLine(msgspec.Struct, frozen=True):
    at: float | None
    """Unix time. None if the line has none."""
    level: str
    """One of `LEVELS`, or "" if it is not known."""
    text: str
    process: str

    @property
    def clock(self) -> str:
        """The time to a millisecond, in UTC, or ""."""
        if self.at is None:
            return ""
        text = datetime.fromtimestamp(self.at, UTC).strftime("%H:%M:%S.%f")
        return text[:-3]


class LogFilter(msgspec.Struct, frozen=True):
    level: str = ""
    """Lowest level. Empty: all lines."""
    text: str = ""
    at: int | None = None
    """Unix time whose lines are shown. None: all."""

    def of(self, lines: Iterable[LogLine]) -> list[LogLine]:
        """Return the matching lines. A line without a level or time has those of the line before."""
        text = self.text.casefold()
        return [
            line
            for line in lines
            if (not self.level or _rank(line.level) >= _rank(self.level))
            and text in line.text.casefold()
            and (
                self.at is None
                or (line.at is not None and abs(line.at - self.at - 0.5) <= NEAR_SECS + 0.5)
            )
        ]

    def is_found(self, line: LogLine) -> bool:
        """Return True for the lines of the wanted second itself."""
        return self.at is not None and line.at is not None and int(line.at) == self.at


def parsed(lines: Sequence[str], process: str) -> Iterator[LogLine]:
    """Yield the lines.

    A line that continues a record, as in a stack trace, has the record's time and level. A line
    before the first record has that record's time.
    """
    records = [
        _json_line(line, process) if line.startswith("{") else _plain_line(line, process)
        for line in lines
    ]
    at = next((record.at for record in records if record is not None and record.at), None)
    level = ""
    for line, found in zip(lines, records, strict=True):
        if found is None:
            yield LogLine(at, level, line, process)
            continue
        if found.level in ("warning", "error") and _ORDINARY.search(found.text):
            found = msgspec.structs.replace(found, level="info")
        at, level = found.at or at, found.level
        yield found


def _json_line(line: str, process: str) -> LogLine | None:
    try:
        fields = decode_json(line.encode(), dict[str, Any], "a log line")
    except FrameError:
        return None
    rest = [
        f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in fields.items()
        if name not in _QUIET and name != "exception"
    ]
    text = " ".join([str(fields.get("event", "")), *rest])
    if fields.get("exception"):
        text = f"{text}\n{fields['exception']}"
    return LogLine(
        _time_of(str(fields.get("timestamp", ""))), _level(fields.get("level")), text, process
    )


def _plain_line(line: str, process: str) -> LogLine | None:
    found = _PLAIN.match(line)
    if found is None or _level(found[2]) not in LEVELS:
        return None
    return LogLine(_time_of(found[1]), _level(found[2]), line[found.end() :], process)


def _level(text: object) -> str:
    name = str(text or "").lower()
    return _NAMES.get(name, name if name in LEVELS else "")


def _rank(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else 1


def _time_of(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
