"""Aggregates over all rows of a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row


def facts_of(rows: DataFrame, *aggregates: Column) -> Row:
    """Return the single row of an aggregate without groups."""
    found = rows.agg(*aggregates).first()
    assert found is not None, "an aggregate without groups has one row"
    return found
