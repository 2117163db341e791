"""Reading a record of the sink topic: typed columns, or the reason why it cannot be typed.

Strict on purpose. Spark's `from_json` accepts `{"count": "12"}` and `{"word": 12}`; here a field has the
very JSON type that the schema says or the record is quarantined. Fields that the schema does not name are ignored, so
that a topology may add some. Nothing here raises, whatever the bytes are: one bad record must not stop a
stream, and Spark 4 computes under ANSI rules, where an overflow is an error.

What names an occurrence is its lineage, where the record's headers have all of it (`KafkaBolt.with_lineage`), else the field
`id`, which is not asked for then. Both have the same form, so a topology may begin to write headers at any time.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FIELDS = {"word": "STRING", "count": "BIGINT", "id": "STRING", "emitted_at": "BIGINT"}
_WORDS_FOR_TYPES = {"STRING": "a string", "BIGINT": "a whole number"}
_LINEAGE = ("topic", "partition", "offset", "part")
"""Headers `kstorm-source-…`: the coordinates of the message that the record was made of, and which of its records it is."""
_LAST_MILLISECOND = 253402300799999  # of the year 9999, the last that Spark's timestamps are made for
_SOURCE = r"\A([a-zA-Z0-9._-]{1,249})-([0-9]{1,9})-([0-9]{1,18})-[^-]+\z"
"""An id that tells topic, partition and offset of the message."""
_BUCKETS = 64


def read_records(rows: DataFrame) -> DataFrame:
    """Bronze rows as they are, plus `reason` (null if the record is good) and the typed columns of silver.

    The typed columns mean something only where `reason` is null.
    """
    # The brackets make the parser read the whole text: without them it would stop after the first value, and report no error.
    parsed = rows.withColumn("_text", sf.col("value").cast("string")).withColumn(
        "_json", sf.try_parse_json(sf.concat(sf.lit("["), "_text", sf.lit("]")))
    )
    for name, sql_type in _FIELDS.items():
        parsed = parsed.withColumn(f"_{name}", sf.try_variant_get("_json", f"$[0].{name}", "variant"))
        parsed = parsed.withColumn(name, sf.try_variant_get(f"_{name}", "$", sql_type.lower()))
    for name in _LINEAGE:
        parsed = parsed.withColumn(f"_{name}", _header(f"kstorm-source-{name}"))
    lineage = sf.concat_ws("-", *(f"_{name}" for name in _LINEAGE))
    parsed = parsed.withColumn("_lineage", sf.when(_has_lineage(), lineage))
    name_of_occurrence = sf.coalesce("_lineage", "id")
    return parsed.select(
        *rows.columns,
        _reason().alias("reason"),
        "word",
        "count",
        name_of_occurrence.alias("id"),
        sf.timestamp_millis(sf.when(_in_time(), sf.col("emitted_at"))).alias("emitted_at"),
        readable_timestamp().alias("event_time"),
    ).withColumns(source_of("id"))


def readable_timestamp() -> Column:
    """The Kafka timestamp, or null if it is after the year 9999: Python cannot read such a one."""
    return sf.when(sf.unix_millis("timestamp") <= _LAST_MILLISECOND, sf.col("timestamp"))


def source_of(id: str) -> dict[str, Column]:
    """What the column `id` tells of the message that the record was made of, as columns of silver; null if it tells nothing.

    A function of the id alone: two records of one id have the same source, wherever their ids come from.
    """
    topic, partition, offset = (sf.regexp_extract(id, _SOURCE, group) for group in (1, 2, 3))
    source_partition = partition.try_cast("int")
    # Neighbouring partitions of a topic are in different buckets.
    bucket = sf.pmod(sf.crc32(topic.cast("binary")) + source_partition, sf.lit(_BUCKETS)).cast("int")
    return {
        "source_topic": sf.when(topic != "", topic),
        "source_partition": source_partition,
        "source_offset": offset.try_cast("bigint"),
        "source_bucket": bucket,
    }


def _header(name: str) -> Column:
    """The text of the first header of that name, or null; also of what is not text."""
    named = sf.filter("headers", lambda header: header["key"] == name)
    text = sf.get(named, sf.lit(0))["value"].cast("string")
    return sf.when(sf.is_valid_utf8(text), text)


def _has_lineage() -> Column:
    """Whether the headers name one record of one message: with less than all four, two occurrences might look like one."""
    numbers = (sf.col(f"_{name}").rlike("^[0-9]{1,18}$") for name in ("partition", "offset"))
    return reduce(
        and_, (*numbers, *(sf.coalesce(sf.col(f"_{name}") != "", sf.lit(False)) for name in ("topic", "part")))
    )


def _reason() -> Column:
    """The first thing that is wrong with the record, or null."""
    first, second = (sf.try_variant_get("_json", f"$[{place}]", "variant") for place in range(2))
    one_value = sf.col("_json").isNotNull() & first.isNotNull() & second.isNull()
    too_late = sf.concat(
        sf.lit("the Kafka timestamp is after the year 9999: "), sf.unix_millis("timestamp"), sf.lit(" ms")
    )
    reason = (
        sf.when(sf.col("timestamp").isNotNull() & readable_timestamp().isNull(), too_late)
        .when(sf.col("value").isNull(), "the value is null")
        .when(~sf.is_valid_utf8("_text"), "the value is not UTF-8")
        .when(~one_value, "the value is not JSON")
        .when(~sf.schema_of_variant(first).startswith("OBJECT"), "the value is not a JSON object")
    )
    for name, sql_type in _FIELDS.items():
        found = sf.schema_of_variant(f"_{name}")
        wanted = _WORDS_FOR_TYPES[sql_type]
        asked = sf.col("_lineage").isNull() if name == "id" else sf.lit(True)
        reason = reason.when(asked & found.isNull(), f"field {name} is missing")
        reason = reason.when(
            asked & (found != sql_type), sf.concat(sf.lit(f"field {name} is not {wanted} but "), found)
        )
    return (
        reason.when(sf.col("_lineage").isNull() & (sf.col("id") == ""), "field id is empty")
        .when(sf.col("count") < 1, "field count is below 1")
        .when(~_in_time(), "field emitted_at is not a time in milliseconds between the years 1970 and 9999")
    )


def _in_time() -> Column:
    return sf.col("emitted_at").between(0, _LAST_MILLISECOND)
