"""Removing the files that the tables need no more.

A merge writes the files that it changes anew, and compaction writes many as one. Delta leaves the old ones where they are, for
whoever is reading them, until somebody runs VACUUM. Much of a gold table is written anew with each batch: without this a pipeline
that runs for ever fills any volume.

How long an old file stays is the table's property `delta.deletedFileRetentionDuration`: a day, unless somebody sets another.
Bronze is left alone: `refine` may have old files of it still to read, and it is only ever appended to.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 6 * 3600.0


class Housekeeper:
    """Removes old files when it is time: at the start of a run, so that restarts do not put it off, and every six hours."""

    def __init__(self, spark: SparkSession, tables: Tables, names: Sequence[str]) -> None:
        self._spark, self._tables, self._names = spark, tables, names
        self._left: list[str] = []
        self._due = time.monotonic()

    def look(self) -> None:
        """Tidy one table if it is time, and the next one at the next look; what cannot be removed is a warning."""
        if not self._left and time.monotonic() >= self._due:
            self._due = time.monotonic() + _EVERY_SECONDS
            self._left = list(self._names)
        if not self._left:
            return
        path = self._tables.path(self._left.pop(0))
        try:
            DeltaTable.forPath(self._spark, path).vacuum()
        except (PySparkException, Py4JError) as error:
            logger.warning("old files of %s stay for now: %s", path, str(error).partition("\n")[0])
