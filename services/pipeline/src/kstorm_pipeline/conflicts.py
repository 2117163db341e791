"""Commits that met another: Delta lets the first of two that touch the same files stand, and refuses the second."""

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
"""A commit that has met so many others is not beside `maintain` alone."""


def commit_again(spark: SparkSession, table: str, commit: Callable[[], _T]) -> _T:
    """Make a commit to a table, again if `maintain` has written files of it as one meanwhile; it must carry its batch."""
    for left in reversed(range(_TRIES)):
        try:
            return commit()
        except Py4JJavaError as error:
            if not (left and is_conflict(spark, error)):
                raise
            logger.info("%s has got another commit meanwhile: committing again", table)
    raise AssertionError("the last try returns or raises")


def is_conflict(spark: SparkSession, error: Exception) -> bool:
    """Whether a commit was refused because another had come between."""
    if not isinstance(error, Py4JJavaError):
        return False
    gateway = spark.sparkContext._gateway
    return bool(
        is_instance_of(gateway, error.java_exception, "java.util.ConcurrentModificationException")
    )
