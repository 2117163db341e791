"""Reads Avro records of a schema registry with Spark's `from_avro`."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import from_avro

from kstorm.formats import AVRO
from kstorm_pipeline.avro_references import inlined
from kstorm_pipeline.ddl import quoted, spare
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.records import texts_fit
from kstorm_pipeline.registry_records import (
    BROKEN,
    ID,
    PAYLOAD,
    Decoder,
    RegistryRecords,
    check_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kstorm_pipeline.registry import Schema

logger = logging.getLogger(__name__)

_READ = "__kstorm_read"
"""A field that no writer has. Its default marks rows that were read: broken ones are all null."""
_END = 16
"""Bytes of the mark behind a record's payload. The decoder itself would ignore remaining bytes."""


@dataclass(frozen=True)
class AvroRecords(RegistryRecords):
    """Reads Avro records into columns: see `avro_records`."""

    schema: str | None = None
    format: ClassVar = AVRO

    @property
    def declared(self) -> bool:
        return self.schema is not None

    def decoder(self, schema: Schema | None) -> Decoder:
        return _AvroDecoder(inlined(schema) if schema is not None else self.schema or "")


def avro_records(
    registry: str = "",
    *,
    subject: str = "",
    schema: str | None = None,
    reject: Mapping[str, str] | None = None,
    key: str | None = None,
) -> AvroRecords:
    """Read Avro records that begin with the id of a schema registry.

    Each record is read with its writer's schema and resolved to the reader's schema by Avro's rules
    (defaults, promotions, aliases). The columns are the fields of the reader's schema. That is
    `schema` (JSON), or else the latest version of `subject` when the run starts. `subject` defaults
    to `<topic>-value`. `registry` is `http://host:port` and defaults to the setting
    `--schema-registry`.

    `reject` maps reasons to SQL conditions. A readable record that meets a condition is
    quarantined. `key` names a column for the record's key as text.
    """
    return AvroRecords(registry, subject, dict(reject or {}), key, schema)


class _AvroDecoder(Decoder):
    def __init__(self, schema: str) -> None:
        self._plain = schema
        self._fields, self._reader = _with_sentinel(schema)
        self._options = {"avroSchema": self._reader, "mode": "PERMISSIVE"}

    def learn(self, spark: SparkSession, schema: Schema) -> tuple[str, str]:
        """Return the writer's schema, and the reason for records that are unreadable with it."""
        text = inlined(schema)
        problem = _incompatible(spark, self._plain, text)
        if problem is None:
            return text, "the value does not match that schema"
        logger.warning(
            "schema id %d does not always resolve to the reader's schema: %s", schema.id, problem
        )
        return text, f"it does not resolve to the reader's schema: {problem}"

    def decode(self, rows: DataFrame, writers: Mapping[int, tuple[str, str]]) -> DataFrame:
        # A payload cannot contain its own hash.
        end = sf.unhex(sf.md5(PAYLOAD))
        payload = sf.concat(sf.col(PAYLOAD), end)
        value = sf.when(sf.lit(False), from_avro(payload, self._reader, self._options))
        broken = sf.when(sf.lit(False), "")
        for id, (schema, reason) in writers.items():
            value = value.when(
                sf.col(ID) == id, from_avro(payload, _with_end(schema), self._options)
            )
            broken = broken.when(sf.col(ID) == id, reason)
        taken = [*rows.columns, *self._fields]
        read, held = spare(taken, "read"), spare(taken, "value")
        try:
            rows = rows.withColumn(read, value)
        except Py4JJavaError as error:
            raise PipelineError(
                f"Spark cannot make columns of the reader's Avro schema: {_said(error)}"
            ) from None
        whole = sf.coalesce(sf.col(read).getField("end") == end, sf.lit(False))
        rows = rows.withColumn(held, sf.when(whole, sf.col(read).getField("value")))
        rows = rows.withColumns({name: sf.col(held).getField(name) for name in self._fields})
        said = sf.when(sf.col(held).getField(_READ).isNull(), broken)
        for name in self._fields:
            column = quoted([name])[0]
            fits = texts_fit(sf.col(column), rows.select(column).schema[name].dataType)
            if fits is not None:
                said = said.when(~fits, f"field {name} has text that is not UTF-8")
        return rows.withColumn(BROKEN, said).drop(read, held)


def _with_sentinel(schema: str) -> tuple[list[str], str]:
    """Return the names of a record's fields, and its schema with the field `_READ` added."""
    try:
        record = json.loads(schema)
        names = [each["name"] for each in record["fields"]]
    except (ValueError, TypeError, KeyError):
        raise PipelineError("the reader's Avro schema is not a record schema in JSON") from None
    more = {"name": _READ, "type": "boolean", "default": True}
    made = json.dumps({**record, "fields": [*record["fields"], more]})
    return check_columns(names), _with_end(made)


def _with_end(schema: str) -> str:
    """Return the schema of a value that is followed by the mark."""
    end = {"type": "fixed", "name": "kstorm_end", "size": _END}
    fields = [{"name": "value", "type": json.loads(schema)}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": "kstorm_record", "fields": fields})


def _incompatible(spark: SparkSession, reader: str, writer: str) -> str | None:
    """Return why the reader's schema may not fit some of the writer's records, or None."""
    avro: Any = spark._jvm.org.apache.avro  # type: ignore[union-attr]
    try:
        parsed = [
            avro.Schema.Parser().setValidateDefaults(False).parse(text) for text in (reader, writer)
        ]
        found = (
            avro.SchemaCompatibility.checkReaderWriterCompatibility(*parsed)
            .getResult()
            .getIncompatibilities()
        )
        return "; ".join(map(_shown, found)) or None
    except Py4JJavaError as error:
        return _said(error)


def _shown(incompatibility: Any) -> str:
    """Format an incompatibility as "reader field missing default value, amount at /fields/1"."""
    kind = incompatibility.getType().toString().lower().replace("_", " ")
    return f"{kind}, {incompatibility.getMessage()} at {incompatibility.getLocation()}"


def _said(error: Py4JJavaError) -> str:
    return " ".join(str(error.java_exception.getMessage()).split())
