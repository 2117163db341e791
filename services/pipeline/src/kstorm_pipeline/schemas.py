"""Determines the columns of the pipeline's tables, and checks that existing tables have them.

Both happen before the first query starts, by calling the pipeline's functions with empty tables. So
a column that a function leaves out, or a table of another form, ends the run before anything is
written.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as sf
from pyspark.sql.types import NumericType, StructField, StructType

from kstorm_pipeline.checkpoints import how_to_build
from kstorm_pipeline.ddl import columns_of, quoted
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.exact_types import NOT_IN_DELTA, check_names
from kstorm_pipeline.gold_rows import PLACES, gather, in_order
from kstorm_pipeline.json_records import FIELDS, JsonRecords
from kstorm_pipeline.occurrences import NAMED
from kstorm_pipeline.pipeline import DEFINITION, POSITION, SINK_ORDER, SOURCE_ORDER
from kstorm_pipeline.row_reading import good_rows, read_rows, refine_rows
from kstorm_pipeline.tables import BRONZE, QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession

    from kstorm_pipeline.pipeline import Gold, Pipeline
    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)


def find_schemas(spark: SparkSession, pipeline: Pipeline) -> dict[str, StructType]:
    """Return the columns of all the pipeline's tables. Raises PipelineError if it is invalid."""
    bronze = columns_of(BRONZE)
    try:
        read = good_rows(
            pipeline, read_rows(pipeline, spark.createDataFrame([], bronze)).drop("record")
        )
        rows = refine_rows(pipeline, read.withColumn("replay", sf.lit(False)))
        silver = rows.drop("replay")
        _check_storable("silver", silver.schema, pipeline)
        golds = {name: _gold_columns(gold, rows) for name, gold in pipeline.golds.items()}
        for name, columns in golds.items():
            _check_storable(f"the gold table {name!r}", columns, pipeline)
    except (AnalysisException, ParseException) as error:
        raise PipelineError(f"the pipeline is invalid: {_one_line(error)}") from error
    own = {
        "bronze": bronze,
        "silver": _silver_columns(silver.schema),
        "quarantine": columns_of(QUARANTINE),
    }
    return own | golds


def _check_storable(table: str, columns: StructType, pipeline: Pipeline) -> None:
    json = isinstance(pipeline.records, JsonRecords) and table == "silver"
    check_names(f"{table} would have", columns, FIELDS if json else "", signs=NOT_IN_DELTA)


def check_tables(
    spark: SparkSession,
    tables: Tables,
    pipeline: Pipeline,
    schemas: dict[str, StructType],
    rebuilt: Collection[str] = (),
) -> None:
    """Raise PipelineError if a table's form differs from what the pipeline would write.

    Missing columns are added to silver. A gold table that is `rebuilt` may have any form, because
    it is about to be replaced.
    """
    there = [name for name in schemas if name not in rebuilt and tables.exists(spark, name)]
    for name in there:
        problem = find_problem(spark, tables, pipeline, schemas, name)
        if problem is not None:
            raise PipelineError(
                f"the table {tables.path(name)} does not match the pipeline: {problem}. "
                f"Undo the change, or {how_to_build(pipeline, name)}"
            )
    if "silver" in there:
        found = tables.read(spark, "silver").schema.names
        _grow(spark, tables, [each for each in schemas["silver"] if each.name not in found])


def find_problem(
    spark: SparkSession,
    tables: Tables,
    pipeline: Pipeline,
    schemas: dict[str, StructType],
    name: str,
) -> str | None:
    """Return how an existing table's form differs from what the pipeline would write, or None."""
    found = tables.read(spark, name).schema
    problem = _difference(
        found, schemas[name], may_grow=name == "silver" and "batch" in found.names
    )
    if problem is None and name in pipeline.golds:
        problem = _redeclared(tables.properties(spark, name).get(DEFINITION), pipeline.golds[name])
    return problem


def definitions(pipeline: Pipeline) -> dict[str, dict[str, str]]:
    """Return the property with the declaration of each gold table."""
    return {name: {DEFINITION: gold.declared} for name, gold in pipeline.golds.items()}


def note_definitions(spark: SparkSession, tables: Tables, pipeline: Pipeline) -> None:
    """Store the declaration in each gold table of an earlier version, which lacks it."""
    for name, declared in definitions(pipeline).items():
        if DEFINITION not in tables.properties(spark, name):
            tables.set_properties(spark, name, declared)


def _difference(found: StructType, wanted: StructType, *, may_grow: bool) -> str | None:
    """Return why rows of the wanted form do not fit into a table, or None."""
    new = [] if may_grow else [each.name for each in wanted if each.name not in found.names]
    if new:
        return f"it has no column {new[0]!r}"
    for each in found:
        if each.name not in wanted.names:
            return f"the pipeline does not make its column {each.name!r}"
        before, now = each.dataType.simpleString(), wanted[each.name].dataType.simpleString()
        if before != now:
            return f"its column {each.name!r} is {before}, but the pipeline makes it {now}"
    return None


def _redeclared(before: str | None, gold: Gold) -> str | None:
    """Return how the declaration of a gold table has changed, or None."""
    return (
        None
        if before in (None, gold.declared)
        else f"it was declared as {before}, and is now {gold.declared}"
    )


def _grow(spark: SparkSession, tables: Tables, new: list[StructField]) -> None:
    if new:
        columns = ", ".join(
            f"{quoted([each.name])[0]} {each.dataType.simpleString()}" for each in new
        )
        logger.info("silver gets new columns, which are null in existing rows: %s", columns)
        spark.sql(f"ALTER TABLE {tables.sql_name('silver')} ADD COLUMNS ({columns})")


def _gold_columns(gold: Gold, rows: DataFrame) -> StructType:
    """Return the columns of a gold table, from rows of silver with `replay`."""
    returned = gold.function(rows if gold.replays else rows.drop("replay"))
    made = returned.columns
    gold = in_order(gold, returned)
    wanted = gold.asked
    if gold.columns_by("latest"):
        wanted += PLACES if gold.order in (SOURCE_ORDER, SINK_ORDER) else [gold.order]
    lacking = [name for name in wanted if name not in made]
    if lacking and lacking[0] in PLACES:
        raise PipelineError(
            f"the gold table {gold.name!r}: `latest` needs the origin of a row, but the function "
            f"{gold.function.__name__} left out {lacking[0]!r}. Return rows without grouping them, "
            "because the pipeline groups them by the keys, or give order= a column"
        )
    if lacking:
        raise PipelineError(
            f"the gold table {gold.name!r}: the function {gold.function.__name__} returns no column "
            f"{lacking[0]!r}; it returns {', '.join(made)}"
        )
    if POSITION in made:
        raise PipelineError(
            f"the gold table {gold.name!r}: a column cannot be called {POSITION!r}: "
            "the pipeline has one of that name"
        )
    for name in gold.columns_by("add"):  # Spark would convert text to numbers
        kind = returned.schema[name].dataType
        if not isinstance(kind, NumericType):
            raise PipelineError(
                f"the gold table {gold.name!r}: `add` takes numbers, but {name!r} is "
                f"{kind.simpleString()}"
            )
    return _nullable(gather(gold, returned).schema)


def _silver_columns(made: StructType) -> StructType:
    """Return the pipeline's own columns, then the user's.

    Delta collects statistics of the first 32 columns only, and look-ups depend on them.
    """
    own = columns_of(NAMED)
    return _nullable(StructType([*own, *(each for each in made if each.name not in own.names)]))


def _nullable(schema: StructType) -> StructType:
    return StructType(
        [
            StructField(each.name, each.dataType, nullable=True, metadata=each.metadata)
            for each in schema
        ]
    )


def _one_line(error: AnalysisException | ParseException) -> str:
    return " ".join(str(error).split(";\n")[0].split())
