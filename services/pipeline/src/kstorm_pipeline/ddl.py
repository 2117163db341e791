"""Columns in SQL's notation."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from collections.abc import Iterable


def columns_of(ddl: str) -> StructType:
    """Parse `name TYPE, …`. Only a running Spark session can parse it."""
    return cast("StructType", StructType.fromDDL(ddl))


def spare(taken: Iterable[str], name: str) -> str:
    """Return a name for a temporary column that differs from all `taken` ones, in any case."""
    lower = {each.lower() for each in taken}
    found = f"__{name}"
    while found in lower:
        found = f"_{found}"
    return found


def quoted(names: Iterable[str]) -> list[str]:
    """Quote names for SQL."""
    return ["`" + name.replace("`", "``") + "`" for name in names]
