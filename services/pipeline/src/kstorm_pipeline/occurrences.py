"""Names the occurrence of a record: two records of the same occurrence have the same name.

The name is the lineage in the record's headers, if complete (`KafkaBolt.with_lineage`), or else the
pipeline's `identity`. A record without lineage and `identity` is identified by its own coordinates,
so it is always an occurrence of its own. A lineage and an `id` of the same form are the same name,
so a topology can start to write headers at any time.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstorm_pipeline.ddl import quoted, spare
from kstorm_pipeline.lineage import BUCKETS, LAST_MILLISECOND, LINEAGE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NAMED = """
    occurrence STRING COMMENT 'name of the record: <source topic>-<partition>-<offset>-<part>, or the identity; null if none',
    kafka_partition INT COMMENT 'coordinates of the record in the topic',
    kafka_offset BIGINT,
    kafka_timestamp TIMESTAMP,
    source_topic STRING COMMENT 'source topic in occurrence; null if that has another form',
    source_partition INT COMMENT 'source partition in occurrence',
    source_offset BIGINT COMMENT 'source offset in occurrence',
    source_bucket INT COMMENT 'from source topic and partition; a file has only one bucket, so look-ups skip most files',
    batch BIGINT COMMENT 'the batch that added the row'
"""
"""The columns that silver has for every record, in addition to its reader's."""

_LINEAGE = ("topic", "partition", "offset", "part")


def name_occurrences(rows: DataFrame, identity: tuple[str, ...]) -> DataFrame:
    """Add the columns of `NAMED` except `batch`, and a reason if a required name is missing."""
    headers, whole = spare(rows.columns, "headers"), spare(rows.columns, "lineage")
    parts = [_header(header).alias(name) for name, header in zip(_LINEAGE, LINEAGE, strict=True)]
    rows = rows.withColumn(headers, sf.struct(*parts))
    lineage = sf.concat_ws("-", *(f"{headers}.{name}" for name in _LINEAGE))
    rows = rows.withColumn(whole, sf.when(_has_lineage(headers), lineage))
    declared = _declared(identity) if identity else sf.lit(None).cast("string")
    rows = rows.withColumn("occurrence", sf.coalesce(whole, declared))
    places = {
        "kafka_partition": sf.col("record.partition"),
        "kafka_offset": sf.col("record.offset"),
    }
    rows = rows.withColumns(
        places | {"kafka_timestamp": readable_timestamp(), **source_of("occurrence")}
    )
    nameless = _nameless(identity, sf.col(whole).isNull())
    rows = rows.withColumn("reason", sf.coalesce(_too_late(), "reason", nameless))
    return rows.drop(headers, whole)


def readable_timestamp() -> Column:
    """Return the Kafka timestamp. Null if the record has none, or one after the year 9999.

    Kafka writes -1 for a missing timestamp. Python cannot read times after the year 9999.
    """
    at = sf.col("record.timestamp")
    return sf.when(sf.unix_millis(at).between(0, LAST_MILLISECOND), at)


def source_of(name: str) -> dict[str, Column]:
    """Return the source message's coordinates in the column `name`, as columns of silver.

    They are null if the name has another form. They depend on the name alone: two records with one
    name have the same source, wherever their names come from.
    """
    # Split it first: a single regular expression takes 20 µs to reject a name of another form.
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
    # The same as `bucket_of`.
    bucket = sf.pmod(sf.crc32(topic.cast("binary")) + number, sf.lit(BUCKETS)).cast("int")
    found = {
        "source_topic": topic,
        "source_partition": number,
        "source_offset": offset.try_cast("bigint"),
        "source_bucket": bucket,
    }
    return {column: sf.when(told, value) for column, value in found.items()}


def _header(name: str) -> Column:
    """Return the text of the first header with that name. Null if it is missing or not UTF-8."""
    # Use the position, because Spark cannot compile a projection that filters arrays. If there is
    # no such header, the position is 0, and `get` at -1 returns null.
    place = sf.array_position("record.headers.key", name)
    text = sf.get("record.headers.value", (place - 1).cast("int")).cast("string")
    return sf.when(sf.is_valid_utf8(text), text)


def _has_lineage(headers: str) -> Column:
    """Return a condition that is true if the headers identify one record of one message.

    All four are required. With fewer, two occurrences could have the same name.
    """
    numbers = (
        sf.col(f"{headers}.{name}").rlike("^[0-9]{1,18}$") for name in ("partition", "offset")
    )
    texts = (
        sf.coalesce(sf.col(f"{headers}.{name}") != "", sf.lit(False)) for name in ("topic", "part")
    )
    return reduce(and_, (*numbers, *texts))


def _declared(identity: tuple[str, ...]) -> Column:
    """Return the text of a single column, or a JSON list of several.

    A list keeps the parts apart: the end of each part is always clear.
    """
    if len(identity) == 1:
        return sf.col(quoted(identity)[0]).cast("string")
    return sf.to_json(sf.array(*(sf.col(name).cast("string") for name in quoted(identity))))


def _too_late() -> Column:
    at = sf.col("record.timestamp")
    text = sf.concat(
        sf.lit("the Kafka timestamp is after the year 9999: "), sf.unix_millis(at), sf.lit(" ms")
    )
    return sf.when(sf.unix_millis(at) > LAST_MILLISECOND, text)


def _nameless(identity: tuple[str, ...], no_lineage: Column) -> Column:
    """Return why a record has no name although the pipeline declares one, or null."""
    reason = sf.lit(None).cast("string")
    for name in reversed(identity):
        text = sf.col(quoted([name])[0]).cast("string")
        missing = no_lineage & text.isNull()
        empty = no_lineage & (text == "")
        reason = (
            sf.when(missing, f"field {name} is missing")
            .when(empty, f"field {name} is empty")
            .otherwise(reason)
        )
    return reason
