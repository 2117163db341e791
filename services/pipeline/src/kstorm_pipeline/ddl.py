"""Columns as SQL has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from collections.abc import Iterable


def columns_of(ddl: str) -> StructType:
    """The columns that `name TYPE, …` says; needs a Spark that runs, which alone can read it."""
    return cast("StructType", StructType.fromDDL(ddl))


def quoted(names: Iterable[str]) -> list[str]:
    """Names as SQL has them, whatever they are made of."""
    return ["`" + name.replace("`", "``") + "`" for name in names]
