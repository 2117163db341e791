"""What names a record: the same occurrence written twice has the same name, whatever else of it differs.

The name is the lineage in the record's headers, where they have all of it (`KafkaBolt.with_lineage`), else what the pipeline's
`identity` says, else nothing: then the record's own coordinates tell it apart, and no other record is the same. Lineage and an
`id` of the same form are the same name, so a topology may begin to write headers at any time.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.lineage import BUCKETS, LAST_MILLISECOND, LINEAGE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NAMED = """
    occurrence STRING COMMENT 'what the record is of: <source topic>-<partition>-<offset>-<part>, or the identity; null: itself',
    kafka_partition INT COMMENT 'where the record lies in the topic',
    kafka_offset BIGINT,
    kafka_timestamp TIMESTAMP,
    source_topic STRING COMMENT 'the source topic inside occurrence, null if that has another form',
    source_partition INT COMMENT 'the source partition inside occurrence',
    source_offset BIGINT COMMENT 'the source offset inside occurrence',
    source_bucket INT COMMENT 'made of source topic and partition; files hold one bucket each, so look-ups skip most of them',
    batch BIGINT COMMENT 'the batch that added the row'
"""
"""The columns that silver has of every record, beside those that its reader made."""

_LINEAGE = ("topic", "partition", "offset", "part")


def name_occurrences(rows: DataFrame, identity: tuple[str, ...]) -> DataFrame:
    """Add the columns of `NAMED`, but for `batch`, and to `reason` that of a record without the name that it should have."""
    for name, header in zip(_LINEAGE, LINEAGE, strict=True):
        rows = rows.withColumn(f"__{name}", _header(header))
    lineage = sf.concat_ws("-", *(f"__{name}" for name in _LINEAGE))
    rows = rows.withColumn("__lineage", sf.when(_has_lineage(), lineage))
    declared = _declared(identity) if identity else sf.lit(None).cast("string")
    rows = rows.withColumn("occurrence", sf.coalesce("__lineage", declared))
    places = {
        "kafka_partition": sf.col("record.partition"),
        "kafka_offset": sf.col("record.offset"),
    }
    rows = rows.withColumns(
        places | {"kafka_timestamp": readable_timestamp(), **source_of("occurrence")}
    )
    rows = rows.withColumn("reason", sf.coalesce(_too_late(), "reason", _nameless(identity)))
    return rows.drop("__lineage", *(f"__{name}" for name in _LINEAGE))


def readable_timestamp() -> Column:
    """The Kafka timestamp, or null if it is after the year 9999: Python cannot read such a one."""
    at = sf.col("record.timestamp")
    return sf.when(sf.unix_millis(at) <= LAST_MILLISECOND, at)


def source_of(name: str) -> dict[str, Column]:
    """What the column `name` tells of the message that the record was made of, as columns of silver; null if it tells nothing.

    A function of the name alone: two records of one name have the same source, wherever their names come from.
    """
    # In parts: one regular expression for all of it takes 20 µs to find that a name has another form.
    whole = sf.col(name)
    tail = sf.substring_index(whole, "-", -3)
    topic = sf.substring(whole, sf.lit(1), sf.length(whole) - sf.length(tail) - 1)
    partition, offset, part = (
        sf.split_part(tail, sf.lit("-"), sf.lit(place)) for place in (1, 2, 3)
    )
    told = (
        (topic != "")
        & (part != "")
        & partition.rlike(r"\A[0-9]{1,9}\z")
        & offset.rlike(r"\A[0-9]{1,18}\z")
    )
    told = told & topic.rlike(r"\A[a-zA-Z0-9._-]{1,249}\z")
    number = partition.try_cast("int")
    bucket = sf.pmod(sf.crc32(topic.cast("binary")) + number, sf.lit(BUCKETS)).cast(
        "int"
    )  # as `bucket_of` says it
    found = {
        "source_topic": topic,
        "source_partition": number,
        "source_offset": offset.try_cast("bigint"),
        "source_bucket": bucket,
    }
    return {column: sf.when(told, value) for column, value in found.items()}


def _header(name: str) -> Column:
    """The text of the first header of that name, or null; also of what is not text."""
    # By its place, as Spark cannot compile a projection with a filter of arrays in it; no place is 0, and nothing is at -1.
    place = sf.array_position("record.headers.key", name)
    text = sf.get("record.headers.value", (place - 1).cast("int")).cast("string")
    return sf.when(sf.is_valid_utf8(text), text)


def _has_lineage() -> Column:
    """Whether the headers name one record of one message: with less than all four, two occurrences might look like one."""
    numbers = (sf.col(f"__{name}").rlike("^[0-9]{1,18}$") for name in ("partition", "offset"))
    texts = (sf.coalesce(sf.col(f"__{name}") != "", sf.lit(False)) for name in ("topic", "part"))
    return reduce(and_, (*numbers, *texts))


def _declared(identity: tuple[str, ...]) -> Column:
    """One column's text; of several a list of them, in which none can be taken for a part of another."""
    if len(identity) == 1:
        return sf.col(identity[0]).cast("string")
    return sf.to_json(sf.array(*(sf.col(name).cast("string") for name in identity)))


def _too_late() -> Column:
    at = sf.col("record.timestamp")
    text = sf.concat(
        sf.lit("the Kafka timestamp is after the year 9999: "), sf.unix_millis(at), sf.lit(" ms")
    )
    return sf.when(at.isNotNull() & readable_timestamp().isNull(), text)


def _nameless(identity: tuple[str, ...]) -> Column:
    """Why a record has no name though the pipeline declares one, or null."""
    reason = sf.lit(None).cast("string")
    for name in reversed(identity):
        text = sf.col(name).cast("string")
        missing = sf.col("__lineage").isNull() & text.isNull()
        empty = sf.col("__lineage").isNull() & (text == "")
        reason = (
            sf.when(missing, f"field {name} is missing")
            .when(empty, f"field {name} is empty")
            .otherwise(reason)
        )
    return reason
