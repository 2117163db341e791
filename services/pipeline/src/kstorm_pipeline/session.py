"""The Spark session, configured once for whatever master it runs on."""

from __future__ import annotations

import atexit
import re
from contextlib import chdir
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kstorm_pipeline.encryption import STRONG, refuse_unmended
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.settings import Mounted, is_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstorm_pipeline.settings import Settings

PACKAGES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "org.apache.spark:spark-avro_2.13:4.0.0",
    "io.delta:delta-spark_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
)
"""What Spark needs beyond its own jars, where no jars are given."""
_LARGEST = 64 * 1024 * 1024
_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{name}.maxLength={_LARGEST}"
    for name in ("bytes", "string", "collectionItems")
)
"""Avro makes room for what the bytes of a record announce before it looks whether they are there: one broken record would take
the whole heap."""
_COMPILE_ALL = "-XX:-DontCompileHugeMethods"
"""What Spark makes of a reader of records is often one method of more than 8,000 bytes, which Java would interpret for ever."""
_EVERYWHERE = f"{_LIMITS} {_COMPILE_ALL}"
JVM_OPTIONS = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()} {_EVERYWHERE}"
"""The options for a JVM that makes Spark log as `log4j2.properties` says, read no Avro that is larger than a record can be, and
compile all that it runs often."""


_SECRET = re.compile(
    r"secret|passw|passphrase|token|(access|account|private|encryption)[._-]?key", re.IGNORECASE
)
"""What is in the name of a setting that is secret."""


def start_spark(settings: Settings) -> SparkSession:
    """Start Spark, or join the session that this process has; raises PipelineError if it does not start."""
    conf = {
        "spark.app.name": "kstorm-pipeline",
        "spark.master": settings.master,
        **_conf(settings),
        **settings.spark_conf,
    }
    refuse_unmended(conf)
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

    PySpark writes all settings that it then knows on the JVM's command line, which every user of the machine may read. So it gets
    those alone that are no secret; the session has the others set in the JVM that runs, which hands them to executors when they
    ask.
    """
    shown = {
        name: value
        for name, value in conf.items()
        if not isinstance(value, Mounted) and not _SECRET.search(name)
    }
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(shown.items())))


def _scratch() -> Path:
    """A directory for the JVM to run in, gone with this process: Spark makes `artifacts` and `spark-warehouse` there."""
    directory = mkdtemp(prefix="kstorm-spark-")
    atexit.register(rmtree, directory, ignore_errors=True)
    return Path(directory)


def _conf(settings: Settings) -> dict[str, str]:
    conf = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        # Delta's own bookkeeping runs as Spark jobs too, in 50 tasks unless told otherwise.
        "spark.databricks.delta.snapshotPartitions": str(settings.shuffle_partitions),
        # VACUUM lists files in as many tasks as this says: by default 10,000, which take a minute and a half for one file.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(
            settings.shuffle_partitions
        ),
        # Else it adds two commits to a table's log each time, though nothing of the table has changed.
        "spark.databricks.delta.vacuum.logging.enabled": "false",
        # A batch writes a few small files. Where batches follow one another for ever, Delta makes one of every fifty.
        "spark.databricks.delta.autoCompact.enabled": str(settings.trigger == "continuous").lower(),
        # What is merged is kept in memory as it is, and made anew of the same rows if that is lost.
        "spark.databricks.delta.merge.materializeSource": "none",
        # A batch is kept for seconds, and what does not fit goes to disk. To compress it took half as long again as to make it.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # A batch is a few small files. Were each reckoned as 4 MB more than it has, one core would get all the large ones.
        "spark.sql.files.openCostInBytes": "256k",
        # A batch of all tables runs some 200 classes that Spark makes. It keeps 100, the last ones used: each batch made all anew.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # What has run is kept for a page that is not there; the plans of 1,000 queries take most of a small heap.
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
        # One JVM is all there is: it has the jars on its class path, where an archive of classes may have theirs too.
        conf["spark.driver.extraClassPath"] = ":".join(settings.jars)
    elif settings.jars:
        conf["spark.jars"] = ",".join(settings.jars)
    if not settings.jars:
        conf["spark.jars.packages"] = ",".join(PACKAGES)
    if settings.master.startswith("local["):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return conf


def _in_pods(settings: Settings) -> dict[str, str]:
    """Driver and executors are pods of one image: what is a file here is one there, and need not be sent."""
    here = ":".join(jar for jar in settings.jars if not is_url(jar))
    elsewhere = ",".join(filter(is_url, settings.jars))
    conf = {
        "spark.driver.extraClassPath": here,
        "spark.executor.extraClassPath": here,
        "spark.jars": elsewhere,
        "spark.executor.defaultJavaOptions": JVM_OPTIONS,
    }
    return {name: value for name, value in conf.items() if value}
