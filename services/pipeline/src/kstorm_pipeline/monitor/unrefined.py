"""What bronze has and silver has not: the files that bronze's log names behind the place up to which `refine` has read.

Each commit of the log says how many rows its files have, and how old the oldest is, so nothing of the files is read.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kstorm_pipeline.checkpoints import last_done
from kstorm_pipeline.monitor.lag import Lag
from kstorm_pipeline.places import names_in, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kstorm_pipeline.settings import Settings

_NO_FILE = -1


class BronzeLag:
    """Looks at the commits of bronze that `refine` has not read, at each of them once."""

    def __init__(self, spark: SparkSession, settings: Settings, bronze: str) -> None:
        self._spark, self._settings, self._log = spark, settings, f"{bronze}/_delta_log"
        self._known: dict[int, list[Lag]] = {}

    def find(self) -> Lag:
        """What silver lacks of bronze now."""
        version, file = self._read_up_to()
        commits = sorted(
            number
            for name in names_in(self._spark, self._log)
            if (number := _version(name)) is not None
        )
        unread = [number for number in commits if number >= version]
        self._known = {number: self._known.get(number) or self._files(number) for number in unread}
        lag = Lag()
        for number, files in self._known.items():
            lag = sum(files[file + 1 :] if number == version else files, lag)
        return lag

    def _read_up_to(self) -> tuple[int, int]:
        """The first commit that is not read, and its last file that is."""
        text = last_done(self._spark, self._settings, "refine")
        if text is None:
            return 0, _NO_FILE
        position = json.loads(text)
        file = max(int(position["index"]), _NO_FILE)
        # A reader that begins takes all files that there are as one commit; which of them it has read is not known here.
        return (
            (0, _NO_FILE)
            if position["isStartingVersion"]
            else (int(position["reservoirVersion"]), file)
        )

    def _files(self, number: int) -> list[Lag]:
        """What the files are that a commit adds, if it adds rows: `maintain` writes files that have the rows of others."""
        actions = [
            json.loads(line)
            for line in text_of(self._spark, f"{self._log}/{number:020}.json").splitlines()
        ]
        if any("remove" in action for action in actions):
            return []
        return [_lag_of(action["add"]) for action in actions if "add" in action]


def _version(name: str) -> int | None:
    """The number of a commit, by the name of its file."""
    number, _, rest = name.partition(".")
    return int(number) if number.isdigit() and rest == "json" else None


def _lag_of(add: dict[str, Any]) -> Lag:
    """A file that lacks."""
    told = json.loads(add.get("stats") or "{}")
    oldest = told.get("minValues", {}).get("timestamp")
    return Lag(int(told.get("numRecords", 0)), None if oldest is None else _seconds(oldest))


def _seconds(time: str) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:  # after the year 9999
        return None
