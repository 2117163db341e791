"""Retries conflicting commits. If two commits change the same files, Delta accepts only the first."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_TRIES = 10
"""`maintain` alone does not cause this many conflicts in a row."""


def commit_again(spark: SparkSession, table: str, commit: Callable[[], _T]) -> _T:
    """Make a commit to a table. Retry it if `maintain` has compacted the table's files meanwhile.

    The commit must carry its batch.
    """
    for left in reversed(range(_TRIES)):
        try:
            return commit()
        except Py4JJavaError as error:
            if not (left and is_conflict(spark, error)):
                raise
            logger.info("another process has committed to %s: committing again", table)
    raise AssertionError("the last try returns or raises")


def is_conflict(spark: SparkSession, error: Exception) -> bool:
    """Return True if Delta refused a commit because of a concurrent one."""
    if not isinstance(error, Py4JJavaError):
        return False
    gateway = spark.sparkContext._gateway
    return bool(
        is_instance_of(gateway, error.java_exception, "java.util.ConcurrentModificationException")
    )
