"""Names the occurrence of a record: two records of the same occurrence have the same name.

The name is the lineage in the record's headers, if complete (`KafkaBolt.with_lineage`), or else the
pipeline's `identity`. Without either, the record's own coordinates identify it, and no other record
is the same. A lineage and an `id` of the same form are the same name, so a topology can start to
write headers at any time.
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
    """Return the Kafka timestamp. Null if it is after the year 9999, which Python cannot read."""
    at = sf.col("record.timestamp")
    return sf.when(sf.unix_millis(at) <= LAST_MILLISECOND, at)


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


def _has_lineage() -> Column:
    """Return the condition that the headers identify one record of one message.

    All four are required. With fewer, two occurrences could have the same name.
    """
    numbers = (sf.col(f"__{name}").rlike("^[0-9]{1,18}$") for name in ("partition", "offset"))
    texts = (sf.coalesce(sf.col(f"__{name}") != "", sf.lit(False)) for name in ("topic", "part"))
    return reduce(and_, (*numbers, *texts))


def _declared(identity: tuple[str, ...]) -> Column:
    """Return the text of a single column, or a JSON list of several.

    A list keeps the parts apart: no part can be mistaken for a piece of another.
    """
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
    """Return why a record has no name although the pipeline declares one, or null."""
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
