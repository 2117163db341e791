"""Reads a schema registry's JSON records, as strictly as `json_records` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import functions as sf

from kstorm.formats import JSON_SCHEMA
from kstorm_pipeline.ddl import columns_of
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.exact_types import NOT_IN_DELTA, Columns, check_names
from kstorm_pipeline.json_records import read_json
from kstorm_pipeline.json_schema import columns_of_schema
from kstorm_pipeline.registry_records import (
    BROKEN,
    PAYLOAD,
    Decoder,
    RegistryRecords,
    check_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kstorm_pipeline.registry import Schema


_REMEDY = (
    ". Declare the columns in SQL with columns= and name the field with fields={'column': 'field'}"
)


@dataclass(frozen=True)
class JsonSchemaRecords(RegistryRecords):
    """Reads JSON objects with a schema into columns: see `json_schema_records`."""

    schema: str | None = None
    columns: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    cut_times: bool = False
    format: ClassVar = JSON_SCHEMA

    @property
    def declared(self) -> bool:
        return self.schema is not None or self.columns is not None

    def decoder(self, schema: Schema | None) -> Decoder:
        if schema is None:
            return _JsonDecoder(self, columns=self.columns, schema=self.schema or "")
        return _JsonDecoder(
            self,
            schema=schema.text,
            references={name: each.text for name, each in schema.references.items()},
        )


def json_schema_records(
    registry: str = "",
    *,
    subject: str = "",
    schema: str | None = None,
    columns: str | None = None,
    reject: Mapping[str, str] | None = None,
    key: str | None = None,
    fields: Mapping[str, str] | None = None,
    cut_times: bool = False,
) -> JsonSchemaRecords:
    """Read JSON objects that begin with the id of a schema registry.

    The columns are the properties of the reader's schema. That is `schema` (JSON), or else the
    latest version of `subject` when the run starts. `subject` defaults to `<topic>-value`.
    Alternatively, `columns` declares them in SQL as for `json_records`, which supports more types:
    `amount DECIMAL(18,2)`. `registry` is `http://host:port` and defaults to the setting
    `--schema-registry`.

    `reject` maps reasons to SQL conditions. A readable record that meets a condition is
    quarantined. `key` names a column for the record's key as text. `fields` and `cut_times` are
    those of `json_records`.
    """
    if schema is not None and columns is not None:
        raise PipelineError(
            "json_schema_records takes its columns from schema= or from columns=, not from both"
        )
    return JsonSchemaRecords(
        registry, subject, dict(reject or {}), key, schema, columns, dict(fields or {}), cut_times
    )


class _JsonDecoder(Decoder):
    """Decodes JSON. Each object contains its field names, so the writer's schema adds nothing."""

    def __init__(
        self,
        records: JsonSchemaRecords,
        *,
        columns: str | None = None,
        schema: str = "",
        references: Mapping[str, str] | None = None,
    ) -> None:
        self._records, self._ddl = records, columns
        self._columns = None if columns is not None else columns_of_schema(schema, references or {})
        if self._columns is not None:
            check_columns(self._columns.names)
            check_names("the schema has", self._columns, _REMEDY, signs=NOT_IN_DELTA)

    def learn(self, spark: SparkSession, schema: Schema) -> None:
        """Do nothing. The caller stores the ID as known."""

    def decode(self, rows: DataFrame, writers: Mapping[int, None]) -> DataFrame:
        columns = (
            columns_of(self._ddl)
            if self._columns is None and self._ddl is not None
            else self._columns
        )
        assert columns is not None, "columns come from a schema or from SQL"
        exact = Columns(columns, self._records.fields, cut=self._records.cut_times)
        return read_json(rows, sf.col(PAYLOAD), columns, exact, BROKEN)
