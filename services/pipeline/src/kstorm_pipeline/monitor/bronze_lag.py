"""Finds the rows that silver lacks: the files in bronze's log after the position of `refine`.

Each commit of the log contains the number of rows and the oldest timestamp of its files, so no file
is read.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kstorm_pipeline.checkpoints import last_done
from kstorm_pipeline.monitor.lag import TableLag
from kstorm_pipeline.storage import list_names, read_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kstorm_pipeline.settings import Settings

_NO_FILE = -1


class BronzeLag:
    """Reads the commits of bronze that `refine` has not read, each of them once."""

    def __init__(self, spark: SparkSession, settings: Settings, bronze: str) -> None:
        self._spark, self._settings, self._log = spark, settings, f"{bronze}/_delta_log"
        self._known: dict[int, list[TableLag]] = {}

    def find(self) -> TableLag:
        """Return the present lag of silver behind bronze."""
        version, file = self._read_up_to()
        commits = sorted(
            number
            for name in list_names(self._spark, self._log)
            if (number := _version(name)) is not None
        )
        unread = [number for number in commits if number >= version]
        self._known = {number: self._known.get(number) or self._files(number) for number in unread}
        lag = TableLag()
        for number, files in self._known.items():
            lag = sum(files[file + 1 :] if number == version else files, lag)
        return lag

    def _read_up_to(self) -> tuple[int, int]:
        """Return the first commit that is not fully read, and the index of its last read file."""
        text = last_done(self._spark, self._settings, "refine")
        if text is None:
            return 0, _NO_FILE
        position = json.loads(text)
        file = max(int(position["index"]), _NO_FILE)
        # A new reader treats all existing files as one commit. Its position in them is unknown.
        return (
            (0, _NO_FILE)
            if position["isStartingVersion"]
            else (int(position["reservoirVersion"]), file)
        )

    def _files(self, number: int) -> list[TableLag]:
        """Return the lag of each file that a commit adds.

        Commits of `maintain` add no rows: their files replace others.
        """
        actions = [
            json.loads(line)
            for line in read_text(self._spark, f"{self._log}/{number:020}.json").splitlines()
        ]
        if any("remove" in action for action in actions):
            return []
        return [_lag_of(action["add"]) for action in actions if "add" in action]


def _version(name: str) -> int | None:
    """Return the number of a commit from its file name."""
    number, _, rest = name.partition(".")
    return int(number) if number.isdigit() and rest == "json" else None


def _lag_of(add: dict[str, Any]) -> TableLag:
    """Return the lag that results if this file is unread."""
    told = json.loads(add.get("stats") or "{}")
    oldest = told.get("minValues", {}).get("timestamp")
    return TableLag(int(told.get("numRecords", 0)), None if oldest is None else _seconds(oldest))


def _seconds(time: str) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:  # the year is after 9999
        return None
