"""Log lines are parsed: time, level and text."""

import json
from typing import Any

import pytest

from kstorm_ui.sources.log_lines import LogFilter, LogLine, parsed

_AT = 1_700_000_000.0


def record(event: str, level: str = "info", second: int = 0, **fields: Any) -> str:
    stamp = f"2023-11-14T22:13:{20 + second:02}Z"
    return json.dumps(
        {"service": "bolt", "event": event, "level": level, "timestamp": stamp} | fields
    )


def lines(*texts: str) -> list[LogLine]:
    return list(parsed(texts, "count-0"))


def test_json_is_shown_as_text() -> None:
    """The text has its other fields, without the fields that every line repeats."""
    [line] = lines(record("recovered", partition=2, records=[1], pid=7))
    assert line == LogLine(_AT, "info", "recovered partition=2 records=[1]", "count-0")
    assert line.clock == "22:13:20.000"


def test_stack_trace_belongs_to_its_record() -> None:
    """Lines before the first record have its time."""
    found = lines("--- count-0, start 1: python", record("fatal", "error"), "Traceback", "  File")
    assert [(line.at, line.level) for line in found] == [
        (_AT, ""),
        (_AT, "error"),
        (_AT, "error"),
        (_AT, "error"),
    ]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2023-11-14T22:13:20,000 WARN  Broker: lost", "warning"),
        ("[2023-11-14 22:13:20] ERROR: lost", "error"),
        (record("x", "critical"), "error"),
        ("Kafka 3.9.2", ""),
    ],
)
def test_levels_have_one_spelling(text: str, level: str) -> None:
    assert [line.level for line in lines(text)] == [level]


@pytest.mark.parametrize(
    "error",
    ["Broker: Specified group generation id is not valid", "Broker: Group rebalance in progress"],
)
def test_ordinary_rebalance_is_not_an_error(error: str) -> None:
    found = lines(record("commit_refused", "warning", error=error), record("disk full", "error"))
    assert [line.level for line in found] == ["info", "error"]


def test_lines_are_filtered() -> None:
    """By level, by text, and by time. A level includes the higher ones."""
    found = lines(
        record("early"),
        record("Odd", "warning", 12),
        record("bad", "error", 13),
        record("late", second=30),
    )

    def texts(**wanted: Any) -> list[str]:
        return [line.text for line in LogFilter(**wanted).of(found)]

    assert texts() == ["early", "Odd", "bad", "late"]
    assert texts(level="warning") == ["Odd", "bad"]
    assert texts(text="odd") == ["Odd"]
    assert texts(at=int(_AT) + 12) == ["Odd", "bad"]
    assert [LogFilter(at=int(_AT) + 12).is_found(line) for line in found] == [
        False,
        True,
        False,
        False,
    ]
