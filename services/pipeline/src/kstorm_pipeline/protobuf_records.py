"""Protobuf records of a schema registry.

Spark's own `from_protobuf` is a jar of its own, and knows neither ids nor places of messages; so the `protobuf` package decodes in
Python's workers, beside the executors.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.protobuf_columns import rows_of
from kstorm_pipeline.protobuf_files import (
    files_of_class,
    files_of_schema,
    files_of_set,
    message_names,
    open_message,
)
from kstorm_pipeline.protobuf_reading import Reading, read_message
from kstorm_pipeline.protobuf_versions import difference
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

Written: TypeAlias = "Mapping[tuple[int, ...], str | None]"
"""The messages of a writer's schema by their places, each with the reason why it cannot be read, or None."""


@dataclass(frozen=True)
class ProtobufRecords(RegistryRecords):
    """Reads Protobuf messages into columns: see `protobuf_records`."""

    schema: Any = None
    message: str = ""
    emit_defaults: bool = False
    kind: ClassVar[str] = "PROTOBUF"

    @property
    def declared(self) -> bool:
        """See `RegistryRecords`."""
        return self.schema is not None

    def decoder(self, schema: Schema | None) -> Decoder:
        """See `RegistryRecords`."""
        files, message = self._reader(schema)
        return _ProtobufDecoder(Reading(files, message, self.emit_defaults))

    def _reader(self, schema: Schema | None) -> tuple[bytes, str]:
        """The reader's descriptors, and the message among them."""
        if isinstance(self.schema, type):
            return files_of_class(self.schema), self.message or self.schema.DESCRIPTOR.full_name  # type: ignore[attr-defined]
        files = files_of_schema(schema) if schema is not None else files_of_set(self.schema)
        names = message_names(files)
        if not names and not self.message:
            raise PipelineError(
                "the reader's Protobuf schema has no message: correct subject= or schema=, or give message="
            )
        return files, self.message or names[0,]


def protobuf_records(
    registry: str = "",
    *,
    subject: str = "",
    schema: Any = None,
    message: str = "",
    emit_defaults: bool = False,
    reject: Mapping[str, str] | None = None,
    key: str | None = None,
) -> ProtobufRecords:
    """Read Protobuf messages that begin with the id of a schema registry, and the place of their type in the schema.

    The columns are the fields of the reader's message. Its schema is `schema`: a class that protoc generated, or the bytes of what
    `protoc --include_imports --descriptor_set_out=FILE` wrote; else the latest of `subject` when the run begins, `<topic>-value`
    unless it is given. The message is `message` by its full name, else the class's, else the first of the schema. Records of
    another message are quarantined, and so are those whose schema has another type for a field, unless each of its values fits.
    `registry` is `http://host:port`, else the setting `--schema-registry`; it must know `format=serialized`.

    A field that cannot tell whether it is there (proto3 without `optional`) is null when it is zero; `emit_defaults=True` makes it
    zero. `reject` has reasons by which a record that can be read is quarantined all the same, each with its condition in SQL. `key`
    names a column for the record's key as text.
    """
    if schema is not None and not isinstance(schema, bytes) and not hasattr(schema, "DESCRIPTOR"):
        raise PipelineError(
            f"protobuf_records takes as schema= a generated class or bytes of a set of descriptors, not {schema!r}"
        )
    return ProtobufRecords(
        registry, subject, dict(reject or {}), key, schema, message, emit_defaults
    )


class _ProtobufDecoder(Decoder):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._descriptor = open_message(reading.files, reading.message)
        self._columns = rows_of(self._descriptor, emit_defaults=reading.emit_defaults).columns
        check_columns(self._columns.names)

    def learn(self, spark: SparkSession, schema: Schema) -> Written:
        """The messages of a writer's schema, each with the reason for what cannot be read."""
        files = files_of_schema(schema, self._reading.files)
        return {
            place: self._reason(schema, files, name) for place, name in message_names(files).items()
        }

    def _reason(self, schema: Schema, files: bytes, name: str) -> str | None:
        if name != self._reading.message:
            return f"it is a {name}, and the pipeline reads {self._reading.message}"
        problem = difference(open_message(files, name, f"schema id {schema.id}"), self._descriptor)
        if problem is None:
            return None
        logger.warning(
            "schema id %d cannot always become the reader's schema: %s", schema.id, problem
        )
        return f"it does not resolve to the reader's schema: {problem}"

    def decode(self, rows: DataFrame, writers: Mapping[int, Written]) -> DataFrame:
        """See `Decoder`."""
        reading = self._reading

        def read(id: int | None, payload: bytes | None) -> Any:
            if id is None or payload is None:
                return None
            return read_message(reading, writers[id], bytes(payload))

        read_it = sf.udf(
            read,
            StructType([StructField("broken", StringType()), StructField("value", self._columns)]),
        )
        # As if it gave another answer each time: else Spark would call it once for each condition on what it returns.
        rows = rows.withColumn("__read", read_it.asNondeterministic()(ID, PAYLOAD))
        value = sf.col("__read").getField("value")
        rows = rows.withColumns({name: value.getField(name) for name in self._columns.names})
        return rows.withColumn(BROKEN, sf.col("__read").getField("broken")).drop("__read")
