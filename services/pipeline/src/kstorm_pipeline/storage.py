"""Files and folders in any storage that Spark supports: a disk or an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError

from kstorm_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def list_names(spark: SparkSession, place: str) -> list[str]:
    """Return the names in a folder, or none if it does not exist.

    Raises PipelineError if the storage does not answer. Otherwise an unfinished batch would look
    like one that never started.
    """
    path, files = _open(spark, place)
    try:
        return [str(each.getPath().getName()) for each in files.listStatus(path)]
    except Py4JJavaError as error:
        if is_instance_of(
            spark.sparkContext._gateway, error.java_exception, "java.io.FileNotFoundException"
        ):
            return []
        reason = str(error.java_exception).partition("\n")[0]
        raise PipelineError(f"{place} cannot be read: {reason}") from error


def exists(spark: SparkSession, place: str) -> bool:
    """Return True if the file or folder exists."""
    path, files = _open(spark, place)
    return bool(files.exists(path))


def modification_time(spark: SparkSession, place: str) -> float | None:
    """Return a file's modification time in seconds since 1970, or None if it does not exist."""
    path, files = _open(spark, place)
    return files.getFileStatus(path).getModificationTime() / 1000 if files.exists(path) else None


def read_text(spark: SparkSession, place: str) -> str:
    """Return a text file's contents."""
    path, files = _open(spark, place)
    stream = files.open(path)
    try:
        return str(spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))  # type: ignore[union-attr]
    finally:
        stream.close()


def write_text(spark: SparkSession, place: str, text: str) -> None:
    """Write a text file, and replace an existing one."""
    path, files = _open(spark, place)
    stream = files.create(path, True)
    try:
        stream.write(text.encode())
    finally:
        stream.close()


def delete(spark: SparkSession, place: str) -> None:
    """Delete a file, or a folder with its contents."""
    path, files = _open(spark, place)
    files.delete(path, True)


def _open(spark: SparkSession, place: str) -> tuple[Any, Any]:
    assert spark._jvm is not None, "there is a Spark"
    path = spark._jvm.org.apache.hadoop.fs.Path(place)
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())
