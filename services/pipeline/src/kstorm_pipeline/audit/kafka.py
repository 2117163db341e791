"""Reads the present contents of topics, once."""

from __future__ import annotations

from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.topic_identity import client_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kstorm_pipeline.settings import Settings

_ALL: Final[Mapping[str, str]] = MappingProxyType({})


def read_topic(
    spark: SparkSession,
    settings: Settings,
    topics: str,
    options: Mapping[str, str] = _ALL,
    *,
    pattern: bool = False,
) -> DataFrame:
    """Read the committed records of topics: comma-separated names, or with `pattern` a regex.

    `options` are Spark's. By default all records are read.
    """
    client = {f"kafka.{name}": value for name, value in client_options(settings).items()}
    # Without anchors Spark takes every topic whose name contains a match.
    which = {"subscribePattern": f"^(?:{topics})$"} if pattern else {"subscribe": topics}
    return (
        spark.read.format("kafka")
        .options(**{**client, **which, "failOnDataLoss": "false", **options})
        .load()
    )


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """Yield a frame that Spark computes once within the block, however often it is used."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


@contextmanager
def unless_missing(otherwise: Exception) -> Iterator[None]:
    """Raise the error `otherwise` if a topic that is read within the block does not exist."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if "UnknownTopicOrPartition" in str(error):
            raise otherwise from None
        raise


def no_such_topic(topology: str, topic: str) -> PipelineError:
    return PipelineError(
        f"there is no topic {topic!r}: is {topology!r} the topology's name, and does it read Kafka? "
        "Releases without this topic wrote nothing that can be audited"
    )
