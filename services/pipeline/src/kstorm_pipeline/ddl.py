"""Columns in SQL's notation."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from collections.abc import Iterable


def columns_of(ddl: str) -> StructType:
    """Parse `name TYPE, …`. Only a running Spark session can parse it."""
    return cast("StructType", StructType.fromDDL(ddl))


def quoted(names: Iterable[str]) -> list[str]:
    """Quote names for SQL."""
    return ["`" + name.replace("`", "``") + "`" for name in names]
