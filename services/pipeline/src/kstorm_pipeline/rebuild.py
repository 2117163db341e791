"""Rebuilds a gold table from silver while the pipeline runs.

Only the pipeline itself writes to its tables, so a rebuild cannot conflict with its commits:

1. `rebuild TABLE`, with the new declaration, builds the table from silver in a separate folder
   below `_rebuild`. It is one commit that contains the declaration and the last batch of silver. A
   run with the old declaration continues in the meantime.
2. The next run with the new declaration merges the rows that silver has gained since into the
   rebuilt table. (Rows of silver contain the batch that added them.) Then it replaces the table's
   content, columns and declaration, in one commit, and continues reading.

After each commit, the next command can continue. Until the last commit the table is unchanged, and
a run with the old declaration can start as before. The last commit carries the last batch of
silver, so a batch that silver had and the old table had not is not merged twice. The table stores
the id of its rebuild, so the same folder is not used again.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from kstorm_pipeline.checkpoints import ANEW, query_id
from kstorm_pipeline.conflicts import commit_again
from kstorm_pipeline.ddl import quoted
from kstorm_pipeline.delta_log import DeltaLog
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.gold import fitting, merge
from kstorm_pipeline.pipeline import APART, DEFINITION, BatchId
from kstorm_pipeline.schemas import find_problem, find_schemas
from kstorm_pipeline.tables import kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kstorm_pipeline.pipeline import Gold, Pipeline
    from kstorm_pipeline.settings import Settings
    from kstorm_pipeline.tables import Tables

logger = logging.getLogger(__name__)

_ID = "kstorm.rebuild"
"""The property with a unique id per rebuild. The replaced table gets it too."""
_QUERY = "kstorm.rebuild.query"
_BATCH = "kstorm.rebuild.batch"
"""The last batch of silver in the table. `_QUERY` is the id of the query that it belongs to."""


def rebuild(
    spark: SparkSession, settings: Settings, tables: Tables, pipeline: Pipeline, name: str
) -> dict[str, object]:
    """Build a gold table from silver's present rows, which the next run puts in place.

    Returns a report. Raises PipelineError if silver does not have what the table needs.
    """
    gold, schemas = _find(pipeline, name), find_schemas(spark, pipeline.begun(settings))
    query = query_id(spark, settings, "refine")
    if query is None or not tables.exists(spark, "silver"):
        raise PipelineError(
            f"there is no silver at {tables.root} with its checkpoint: "
            "run the pipeline first, or correct --tables"
        )
    problem = find_problem(spark, tables, pipeline, schemas, "silver")
    if problem is not None:
        raise PipelineError(
            f"the table {tables.path('silver')} does not match the pipeline: {problem}. "
            f"Undo the change, or {ANEW}"
        )
    session = spark.newSession()
    last = _last_batch(session, tables, query)
    if last is None:
        raise PipelineError(
            f"silver has no rows: delete {tables.path(name)} if it exists, and run the pipeline, "
            "which creates it"
        )
    logger.info("rebuild: %s from silver up to batch %d", name, last)
    if not _is_table(spark, tables.beside(), name):
        tables.beside().drop(spark, name)
    says = {DEFINITION: gold.declared, _ID: uuid.uuid4().hex, _QUERY: query, _BATCH: str(last)}
    tables.beside().drop(session, name + APART)
    everything = _silver(session, tables, schemas, -1, last)
    place = tables.beside().path(name)
    given, apart, others = fitting(session, place, gold, everything, BatchId(query, last))
    try:
        apart.append(others)
        _replace(session, tables.beside(), name, given, kept(name) | says, {})
    finally:
        given.unpersist()
    rows = tables.beside().count(spark, name)
    logger.info(
        "rebuild: %s has %d rows; the next start of the pipeline puts them in place", name, rows
    )
    return {"table": name, "rows": rows, "batch": last}


def find_rebuilt(
    spark: SparkSession,
    settings: Settings,
    tables: Tables,
    pipeline: Pipeline,
    schemas: Mapping[str, StructType],
) -> list[str]:
    """Return the rebuilt gold tables with this pipeline's declaration that are not yet in place."""
    query = query_id(spark, settings, "refine")
    return (
        []
        if query is None
        else [
            name
            for name in pipeline.golds
            if _is_ready(spark, query, tables, pipeline.golds[name], schemas)
        ]
    )


def put_in_place(
    spark: SparkSession,
    settings: Settings,
    tables: Tables,
    gold: Gold,
    schemas: Mapping[str, StructType],
) -> None:
    """Merge the rows that silver has gained since into a rebuilt table, and put it in place."""
    session, built = spark.newSession(), tables.beside().path(gold.name)
    query = query_id(session, settings, "refine")
    assert query is not None, "silver has rows, so it has a checkpoint"
    last = _last_batch(session, tables, query)
    assert last is not None, "silver had rows when the table was built"
    log = DeltaLog(session, built)
    has = max(int(log.property(_BATCH) or 0), log.last_batch(query) or 0)
    logger.info("%s was rebuilt up to batch %d, silver is at %d", gold.name, has, last)
    if has < last:
        merge(
            session, built, gold, _silver(session, tables, schemas, has, last), BatchId(query, last)
        )
    switch(session, tables, gold, query, last)
    _finish(session, query, tables, gold)


def _finish(spark: SparkSession, query: str, tables: Tables, gold: Gold) -> None:
    """Put the rows of keys that are kept apart in place as well, and delete the rebuild.

    The next start repeats it if the process dies in between.
    """
    beside, name = tables.beside(), gold.name + APART
    if beside.exists(spark, name):
        last = DeltaLog(spark, beside.path(name)).last_batch(query)
        carried = {} if last is None else _carried(spark, tables, name, BatchId(query, last))
        writer = beside.read(spark, name).write.format("delta").mode("overwrite")
        writer.options(overwriteSchema="true", **carried).save(tables.path(name))
    elif tables.exists(spark, name):
        tables.drop(spark, name)
    beside.drop(spark, name)
    beside.drop(spark, gold.name)


def switch(spark: SparkSession, tables: Tables, gold: Gold, query: str, last: int) -> None:
    """Replace a gold table by its rebuild, with all batches up to `last`, in one commit."""
    built = DeltaLog(spark, tables.beside().path(gold.name))
    says = kept(gold.name)
    if tables.exists(spark, gold.name):
        says |= DeltaLog(spark, tables.path(gold.name)).properties_for_replacing()
    says |= {DEFINITION: gold.declared, _ID: built.property(_ID) or ""}
    carried = _carried(spark, tables, gold.name, BatchId(query, last))
    rows = tables.beside().read(spark, gold.name)
    commit_again(gold.name, lambda: _replace(spark, tables, gold.name, rows, says, carried))
    if DeltaLog(spark, tables.path(gold.name)).property(_ID) != says[_ID]:
        raise PipelineError(
            f"the table {tables.path(gold.name)} was written by another run while this one started: "
            "end that run, and start again"
        )
    logger.info("%s: the rebuilt table is in place, with all batches up to %d", gold.name, last)


def _find(pipeline: Pipeline, name: str) -> Gold:
    if name not in pipeline.golds:
        known = ", ".join(pipeline.golds) or "none: is --pipeline right?"
        raise PipelineError(f"the pipeline has no gold table {name!r}; its gold tables are {known}")
    gold = pipeline.golds[name]
    if gold.replays:
        raise PipelineError(
            f"{name} has replays=True, but tables are rebuilt from silver, which has no replays: "
            f"{ANEW}"
        )
    return gold


def _is_table(spark: SparkSession, tables: Tables, name: str) -> bool:
    """Return True if the table is readable. After a crash, a folder may be only partly deleted."""
    try:
        return (
            tables.exists(spark, name)
            and DeltaLog(spark, tables.path(name)).property(_ID) is not None
        )
    except (Py4JError, PySparkException):
        return False


def _is_ready(
    spark: SparkSession, query: str, tables: Tables, gold: Gold, schemas: Mapping[str, StructType]
) -> bool:
    beside = tables.beside()
    if not _is_table(spark, beside, gold.name):
        return False
    log = DeltaLog(spark, beside.path(gold.name))
    says = {name: log.property(name) for name in (DEFINITION, _QUERY, _ID)}
    columns = _types(beside.read(spark, gold.name).schema)
    if (
        tables.exists(spark, gold.name)
        and DeltaLog(spark, tables.path(gold.name)).property(_ID) == says[_ID]
    ):
        _finish(spark, query, tables, gold)
        return False
    if (says[DEFINITION], says[_QUERY], columns) == (
        gold.declared,
        query,
        _types(schemas[gold.name]),
    ):
        return True
    logger.warning(
        "%s has another declaration, or is from another silver: run `rebuild %s` again",
        beside.path(gold.name),
        gold.name,
    )
    return False


def _types(schema: StructType) -> dict[str, str]:
    return {each.name: each.dataType.simpleString() for each in schema}


def _last_batch(spark: SparkSession, tables: Tables, query: str) -> int | None:
    """Return the last batch that added rows to silver."""
    return DeltaLog(spark, tables.path("silver")).last_batch(query)


def _silver(
    spark: SparkSession, tables: Tables, schemas: Mapping[str, StructType], after: int, last: int
) -> DataFrame:
    """Return the rows that the batches after `after` up to `last` added, in the pipeline's form."""
    rows = tables.read(spark, "silver").where(sf.col("batch").between(after + 1, last))
    new = [each for each in schemas["silver"] if each.name not in rows.columns]
    rows = rows.withColumns({each.name: sf.lit(None).cast(each.dataType) for each in new})
    return rows.select(*quoted(name for name in schemas["silver"].names if name != "batch"))


def _carried(spark: SparkSession, tables: Tables, name: str, batch: BatchId) -> dict[str, str]:
    """Return the options with which a commit carries a batch. There are none if the table already
    has the batch, because Delta would refuse the commit."""
    if tables.exists(spark, name):
        held = DeltaLog(spark, tables.path(name)).last_batch(batch.query)
        if held is not None and held >= batch.number:
            return {}
    return {"txnAppId": batch.query, "txnVersion": str(batch.number)}


def _replace(
    spark: SparkSession,
    tables: Tables,
    name: str,
    rows: DataFrame,
    properties: Mapping[str, str],
    options: Mapping[str, str],
) -> None:
    """Write a table's columns, properties and content in one commit."""
    writer = rows.writeTo(tables.sql_name(name)).using("delta").options(**options)
    for key, value in properties.items():
        writer = writer.tableProperty(key, value)
    writer.createOrReplace()
