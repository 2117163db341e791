"""The Spark session, configured in one place for any master."""

from __future__ import annotations

import atexit
import re
from contextlib import chdir
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kstorm_pipeline.encryption import STRONG, refuse_broken
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.setting_values import Mounted, is_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstorm_pipeline.settings import Settings

_LARGEST = 64 * 1024 * 1024
_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{name}.maxLength={_LARGEST}"
    for name in ("bytes", "string", "collectionItems")
)
"""Avro allocates the size that a record announces before it checks for the bytes. So a broken
record could use the whole heap."""
_COMPILE_ALL = "-XX:-DontCompileHugeMethods"
"""A reader often becomes one method of over 8,000 bytes, which Java would only interpret."""
_EVERYWHERE = f"{_LIMITS} {_COMPILE_ALL}"
JVM_OPTIONS = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()} {_EVERYWHERE}"
"""JVM options: log by `log4j2.properties`, limit Avro's sizes, and compile large methods."""


_SECRET = re.compile(
    r"secret|passw|passphrase|token|(access|account|private|encryption)[._-]?key", re.IGNORECASE
)
"""Matches the names of secret settings."""


def packages(spark: str) -> tuple[str, ...]:
    """Return the additional packages for that version of Spark, which it fetches if no jars are
    given."""
    minor = ".".join(spark.split(".")[:2])
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
        f"org.apache.spark:spark-avro_2.13:{spark}",
        f"io.delta:delta-spark_{minor}_2.13:{version('delta-spark')}",
        "org.apache.kafka:kafka-clients:3.9.2",
    )


def start_spark(settings: Settings) -> SparkSession:
    """Start Spark, or join this process's session. Raises PipelineError if it does not start."""
    conf = {
        "spark.app.name": "kstorm-pipeline",
        "spark.master": settings.master,
        **_conf(settings),
        **settings.spark_conf,
    }
    refuse_broken(conf, pyspark.__version__)
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    try:
        with chdir(_scratch()):
            _start_jvm(conf)
            return builder.getOrCreate()
    except PySparkException as error:
        raise PipelineError(
            f"Spark did not start ({error}); it needs Java 17 or 21, found by JAVA_HOME or PATH"
        ) from error


def _start_jvm(conf: Mapping[str, str]) -> None:
    """Start the JVM, if this process has none.

    PySpark writes all settings that it knows at this point on the JVM's command line, which every
    user of the machine may read. So it gets only those that are not secret. The session sets the
    others in the running JVM, which passes them to executors on request.
    """
    shown = {
        name: value
        for name, value in conf.items()
        if not isinstance(value, Mounted) and not _SECRET.search(name)
    }
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(shown.items())))


def _scratch() -> Path:
    """Return the JVM's working directory, in which Spark creates `artifacts` and `spark-warehouse`.

    It is deleted when this process exits.
    """
    directory = mkdtemp(prefix="kstorm-spark-")
    atexit.register(rmtree, directory, ignore_errors=True)
    return Path(directory)


def _conf(settings: Settings) -> dict[str, str]:
    conf = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        # Delta's own bookkeeping also runs as Spark jobs, by default in 50 tasks.
        "spark.databricks.delta.snapshotPartitions": str(settings.shuffle_partitions),
        # VACUUM lists files in this many tasks. The default of 10,000 takes 90 s for one file.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(
            settings.shuffle_partitions
        ),
        # Otherwise each VACUUM adds two commits to a table's log, although the table is unchanged.
        "spark.databricks.delta.vacuum.logging.enabled": "false",
        # A batch writes a few small files. In a continuous run Delta combines every fifty of them.
        "spark.databricks.delta.autoCompact.enabled": str(settings.trigger == "continuous").lower(),
        # The source of a merge is cached already, and recomputed from the same rows if it is lost.
        "spark.databricks.delta.merge.materializeSource": "none",
        # Otherwise Delta refuses to merge a cached source that it has not materialized itself.
        "spark.databricks.delta.merge.failSourceCachedAfterMaterialization": "false",
        # Arrow's functions need Pandas, which nothing else does.
        "spark.sql.execution.pythonUDF.arrow.enabled": "false",
        # A batch is cached for seconds, and spills to disk. Compressing it took half as long as
        # computing it.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # A batch is a few small files. With the default cost of 4 MB per file, one core would get
        # all the large ones.
        "spark.sql.files.openCostInBytes": "256k",
        # A batch of all tables runs about 200 generated classes. By default Spark keeps the 100
        # most recently used, so each batch compiled all of them again.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Spark keeps finished queries for its UI, which is disabled. The plans of 1,000 queries
        # take most of a small heap.
        "spark.ui.retainedJobs": "200",
        "spark.ui.retainedStages": "200",
        "spark.ui.retainedTasks": "2000",
        "spark.sql.ui.retainedExecutions": "100",
        **STRONG,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": f"{JVM_OPTIONS} {settings.driver_java_options}".strip(),
        "spark.executor.defaultJavaOptions": _EVERYWHERE,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if settings.master.startswith("k8s:"):
        conf |= _in_pods(settings)
    elif (
        settings.jars
        and settings.master.startswith("local[")
        and not any(map(is_url, settings.jars))
    ):
        # There is only one JVM. An archive of classes can include only jars on its class path.
        conf["spark.driver.extraClassPath"] = ":".join(settings.jars)
    elif settings.jars:
        conf["spark.jars"] = ",".join(settings.jars)
    if not settings.jars:
        conf["spark.jars.packages"] = ",".join(packages(pyspark.__version__))
    if settings.master.startswith("local["):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return conf


def _in_pods(settings: Settings) -> dict[str, str]:
    """Return settings for pods. All have the same image, so local jars need not be sent."""
    here = ":".join(jar for jar in settings.jars if not is_url(jar))
    elsewhere = ",".join(filter(is_url, settings.jars))
    conf = {
        "spark.driver.extraClassPath": here,
        "spark.executor.extraClassPath": here,
        "spark.jars": elsewhere,
        "spark.executor.defaultJavaOptions": JVM_OPTIONS,
    }
    return {name: value for name, value in conf.items() if value}
