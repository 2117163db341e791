"""Records from a schema registry's serializers: byte 0, the schema id in 4 bytes, the payload.

A record is read with its writer's schema and converted to the columns of the reader's schema, which
is the same for the whole run. So a batch may contain records of many versions, and new versions may
appear during a run. Each batch is searched for ids, and the new ones are requested from the
registry.

    declaration        `begin`     once per run: connect, choose the reader's schema
    OpenRecords        `prepare`   once per batch: find the ids, request the new ones
    a function                     each time that the batch is read: no I/O

An id always means the same schema, so a repeated batch is read as before. An unreadable record goes
to quarantine. If the registry does not answer, the run ends, since it is unknown whether a record
is readable.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import functions as sf

from kstorm.formats import RegistryFormat
from kstorm_pipeline.ddl import quoted
from kstorm_pipeline.errors import PipelineError, SettingsError
from kstorm_pipeline.records import check_key, key_as_text, rejected, times_fit
from kstorm_pipeline.registry import Registry, Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

    from kstorm_pipeline.settings import Settings

logger = logging.getLogger(__name__)

ID, PAYLOAD, BROKEN = "__schema_id", "__payload", "__broken"
"""Temporary columns: the schema's id, the bytes after it, and why they are unreadable."""
_HEADER = 5
_SHOWN = 5
_OURS = ("record", "reason", ID, PAYLOAD, BROKEN)


class Decoder(ABC):
    """A format's decoder: knows the reader's schema, learns the writers', decodes payloads."""

    @abstractmethod
    def learn(self, spark: SparkSession, schema: Schema) -> Any:
        """Return what `decode` needs to know about a writer's schema. Called once for each."""

    @abstractmethod
    def decode(self, rows: DataFrame, writers: Mapping[int, Any]) -> DataFrame:
        """Add the typed columns and `BROKEN`: a reason if the payload is unreadable, otherwise
        null.

        `writers` are the results of `learn` by schema id. The payload of a row with another id is
        never used.
        """


@dataclass(frozen=True)
class RegistryRecords(ABC):
    """The user's declaration of such records."""

    registry: str = field(default="", repr=False)
    subject: str = ""
    reject: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None

    format: ClassVar[RegistryFormat]

    def begin(self, settings: Settings, choice: str | None) -> OpenRecords:
        """Connect to the registry, and get the reader's schema unless it was declared.

        That is the schema with the id `choice`, if given, or else the latest.
        """
        url = self.registry or settings.schema_registry
        if not url:
            raise SettingsError(
                "the pipeline's records need a schema registry: "
                "give --schema-registry (KSTORM_PIPELINE_SCHEMA_REGISTRY)"
            )
        registry = Registry(url, settings.schema_registry_options)
        if self.declared:
            return OpenRecords(self, registry, self.decoder(None), "")
        found = self._chosen(registry, self.subject or f"{settings.topic}-value", choice)
        return OpenRecords(self, registry, self.decoder(found), str(found.id))

    @property
    @abstractmethod
    def declared(self) -> bool:
        """True if the user has declared the reader's schema."""

    @abstractmethod
    def decoder(self, schema: Schema | None) -> Decoder:
        """Return the decoder for the reader's schema from the registry, or the declared one."""

    def _chosen(self, registry: Registry, subject: str, choice: str | None) -> Schema:
        """Return the reader's schema, which must have this format."""
        if choice:
            found, what = registry.schema(int(choice)), f"schema id {choice}"
            logger.info(
                "the columns are from %s, with which a batch was begun; the next run uses the latest",
                what,
            )
        else:
            found, what = registry.latest(subject), f"subject {subject!r}"
        if found is None:
            raise PipelineError(
                f"the schema registry at {registry.shown} has no {what}: "
                "correct --schema-registry, or give the records their subject= or schema="
            )
        if found.kind != self.format.kind:
            raise PipelineError(
                f"the {what} is {found.kind}, and the pipeline reads {self.format.kind}: correct records="
            )
        if not choice:
            logger.info("the columns are from schema id %d, the latest of %s", found.id, subject)
        return found


class OpenRecords:
    """The records of one run, and the schemas found so far."""

    def __init__(
        self, records: RegistryRecords, registry: Registry, decoder: Decoder, choice: str
    ) -> None:
        self.choice = choice
        """The id of the reader's schema, or empty if the user has declared the schema."""
        self._records, self._registry, self._decoder = records, registry, decoder
        self._writers: dict[int, Any] = {}
        self._others: dict[int, str] = {}
        """The formats of schemas that have another format, by id."""

    def prepare(self, rows: DataFrame) -> Callable[[DataFrame], DataFrame]:
        """Get the schemas of a batch, and return its reader.

        Raises PipelineError if the registry does not answer.
        """
        found = (
            rows.select(_schema_id(sf.col("value")).alias("id")).where("id is not null").distinct()
        )
        ids = sorted(row[0] for row in found.collect())
        new = [id for id in ids if id not in self._writers and id not in self._others]
        unknown = [id for id in new if not self._meet(rows.sparkSession, id)]
        if unknown:
            shown = ", ".join(map(str, unknown[:_SHOWN])) + (" …" if len(unknown) > _SHOWN else "")
            logger.warning(
                "the schema registry at %s does not have %d schema ids: %s",
                self._registry.shown,
                len(unknown),
                shown,
            )
        writers = {id: self._writers[id] for id in ids if id in self._writers}
        others = {id: self._others[id] for id in ids if id in self._others}
        return partial(self._read, writers, others)

    def _meet(self, spark: SparkSession, id: int) -> bool:
        """Get the schema of an id. Return False if it does not exist."""
        schema = self._registry.schema(id)
        if schema is None:
            return False
        if schema.kind != self._records.format.kind:
            self._others[id] = schema.kind
        else:
            self._writers[id] = self._decoder.learn(spark, schema)
            logger.info("schema id %d was found in the schema registry", id)
        return True

    def _read(
        self, writers: Mapping[int, Any], others: Mapping[int, str], rows: DataFrame
    ) -> DataFrame:
        """Add the typed columns and `reason`."""
        rows = rows.withColumn(ID, _schema_id(sf.col("record.value")))
        rows = rows.withColumn(
            PAYLOAD,
            sf.when(sf.col(ID).isin(*writers), sf.expr(f"substr(record.value, {_HEADER + 1})")),
        )
        rows = self._decoder.decode(rows, writers)
        typed = [each for each in rows.schema if each.name not in _OURS]
        of_id = sf.coalesce(self._other_reason(others), _reason(writers, typed))
        reason = (
            sf.when(sf.col("record.value").isNull(), "the value is null")
            .when(
                sf.col(ID).isNull(), "the value does not begin with a schema id: byte 0, and 4 more"
            )
            .when(of_id.isNotNull(), sf.concat(sf.lit("schema id "), ID, sf.lit(": "), of_id))
        )
        rows = rows.withColumn("reason", reason)
        if self._records.key is not None:
            check_key("the registry's records", self._records.key, rows.columns)
            rows = key_as_text(rows, self._records.key)
        rows = rows.withColumn("reason", sf.coalesce("reason", rejected(self._records.reject)))
        return rows.drop(ID, PAYLOAD, BROKEN)

    def _other_reason(self, others: Mapping[int, str]) -> Column:
        reason = sf.when(sf.lit(False), "")
        for id, kind in others.items():
            reason = reason.when(sf.col(ID) == id, f"it is {kind}, not {self._records.format.kind}")
        return reason


def _reason(writers: Mapping[int, Any], typed: list[StructField]) -> Column:
    """Return why a record with an id is unreadable, or null."""
    reason = sf.when(~sf.col(ID).isin(*writers), "the schema registry does not have it")
    reason = reason.when(sf.col(BROKEN).isNotNull(), sf.col(BROKEN))
    for each in typed:
        column = sf.col(quoted([each.name])[0])
        fits = times_fit(column, each.dataType)
        if fits is not None:
            reason = reason.when(~fits, f"field {each.name} has a time outside the years 1 to 9999")
    return reason


def check_columns(names: list[str]) -> list[str]:
    """Return the field names of a schema if they can be columns.

    Raises PipelineError if one collides with a column of the pipeline.
    """
    for name in names:
        if name.lower() in _OURS:
            raise PipelineError(
                f"the schema has a field {name!r}, but the pipeline has its own column of that name"
            )
    return names


def _schema_id(value: Column) -> Column:
    """Return the id of a value's schema, or null if it has none."""
    hexed = sf.hex(sf.substring(value, 1, _HEADER))
    return sf.when(
        hexed.rlike("^00[0-9A-F]{8}$"), sf.conv(sf.substring(hexed, 3, 8), 16, 10).cast("bigint")
    )
