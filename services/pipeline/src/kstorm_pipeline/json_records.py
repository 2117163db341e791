"""Reads JSON records into declared columns, or gives the reason why a record does not fit.

It is strict on purpose. Spark's `from_json` accepts `{"count": "12"}` for a number and `{"word":
12}` for a string, and turns values that don't fit into null. Here a field must have exactly the
JSON type of its column and a value that the column holds exactly, or the record is quarantined.
Undeclared fields are ignored, so that a topology can add some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.ddl import columns_of, spare
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.exact_types import Columns, check_names
from kstorm_pipeline.records import check_key, key_as_text, rejected, too_large

FIELDS = ". Name the JSON field with fields={'column': 'field'}"
"""The remedy for a field whose name cannot be a column."""

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class JsonRecords:
    """Reads a JSON object into columns: see `json_records`."""

    schema: str
    reject: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    millis: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    cut_times: bool = False

    def __call__(self, rows: DataFrame) -> DataFrame:
        """Add a column for each field, and `reason`."""
        columns = columns_of(self.schema)
        exact = Columns(columns, self.fields, self.millis, cut=self.cut_times)
        rows = read_json(rows, sf.col("record.value"), columns, exact, "reason")
        if self.key is not None:
            check_key("json_records", self.key, columns.names)
            rows = key_as_text(rows, self.key)
        if self.reject:
            rows = rows.withColumn("reason", sf.coalesce("reason", rejected(self.reject)))
        return rows


def json_records(
    schema: str,
    *,
    reject: Mapping[str, str] | None = None,
    key: str | None = None,
    millis: str | Iterable[str] = (),
    fields: Mapping[str, str] | None = None,
    cut_times: bool = False,
) -> JsonRecords:
    """Read JSON objects into the columns of `schema`.

    `schema` is SQL: `customer STRING NOT NULL, amount DECIMAL(18,2), items ARRAY<STRING>`. A
    missing or null field is null, unless its column is NOT NULL.

    `reject` maps reasons to SQL conditions: `{"the amount is negative": "amount < 0"}`. A readable
    record that meets a condition is quarantined. `key` names a column for the record's key as text.
    `millis` names columns of type TIMESTAMP whose JSON values are integers, the milliseconds since
    1970.

    A column has the name of its JSON field. `fields` gives the JSON names of columns that have
    another: `{"zip_code": "zip code", "address.street": "street-name"}`. `cut_times=True` cuts
    times to microseconds; by default a finer time does not fit.

    Raises PipelineError if `schema` is not text. A run raises it at its start if the declaration
    cannot be used.
    """
    if not isinstance(schema, str):
        raise PipelineError(
            "json_records takes columns as SQL, such as 'customer STRING, amount DECIMAL(18,2)', "
            f"not {schema!r}"
        )
    named = (millis,) if isinstance(millis, str) else tuple(millis)
    return JsonRecords(schema, dict(reject or {}), key, named, dict(fields or {}), cut_times)


def read_json(
    rows: DataFrame, value: Column, columns: StructType, exact: Columns, reason: str
) -> DataFrame:
    """Add a column for each field of the JSON object in `value` (bytes), and a column `reason`.

    The latter contains the reason why the value is unreadable, or null. `exact` is made from the
    same columns.
    """
    check_columns(columns)
    taken = [*rows.columns, *columns.names]
    read, large = spare(taken, "read"), spare(taken, "large")
    rows = rows.withColumn(large, too_large(value))
    rows = rows.withColumn(read, exact.reader()(sf.when(sf.col(large).isNull(), value)))
    found = sf.coalesce(sf.col(large), sf.col(read).getField("reason"))
    typed = exact.of(sf.col(read).getField("value"))
    return rows.withColumns({**typed, reason: found}).drop(read, large)


def check_columns(columns: StructType) -> None:
    """Raise PipelineError if JSON fields cannot be columns of these names."""
    if taken := [name for name in columns.names if name.lower() in ("record", "reason")]:
        raise PipelineError(
            f"JSON records cannot have a column {taken[0]!r}: the pipeline has its own of that name. "
            f"Give it another name, and name the field with fields={{'a_{taken[0].lower()}': {taken[0]!r}}}"
        )
    check_names("the records have", columns, FIELDS)
