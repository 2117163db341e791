"""Writes the lists of `kstorm.local.jars`: what a maintainer runs after changing a version there (`./run lock`).

Ivy resolves each set's roots with all that they need at run time; what Spark already ships is left out of Spark's set.
"""

import hashlib
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from kstorm.errors import LocalError
from kstorm.local.jars import (
    DELTA_VERSION,
    HADOOP_VERSION,
    KAFKA_SET,
    KAFKA_VERSION,
    OLD_KAFKA_SET,
    OLD_KAFKA_VERSION,
    S3_SET,
    SPARK_SET,
    SPARK_VERSION,
    ivy_command,
    list_path,
)
from kstorm.local.java import spark_home

_KAFKA_LOGGING_VERSION: Final = "2.25.3"
_OLD_KAFKA_LOGGING_VERSION: Final = "1.7.36"

_ROOTS: Final = {
    KAFKA_SET: (
        f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
        f"org.apache.logging.log4j:log4j-slf4j-impl:{_KAFKA_LOGGING_VERSION}",
    ),
    OLD_KAFKA_SET: (
        f"org.apache.kafka:kafka_2.13:{OLD_KAFKA_VERSION}",
        f"org.slf4j:slf4j-reload4j:{_OLD_KAFKA_LOGGING_VERSION}",
    ),
    SPARK_SET: (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
        f"org.apache.spark:spark-avro_2.13:{SPARK_VERSION}",
        f"io.delta:delta-spark_2.13:{DELTA_VERSION}",
    ),
    S3_SET: (f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}",),
}


def write_lists() -> None:
    """Resolve every set of jars and write its list; takes about a minute a set."""
    shipped = {path.name for path in (spark_home() / "jars").iterdir()}
    for set_name, roots in _ROOTS.items():
        lines = _resolve(roots, leave_out=shipped if set_name in (SPARK_SET, S3_SET) else set())
        header = f"# Written by kstorm.local.jarlock from {' and '.join(roots)}.\n"
        list_path(set_name).write_text(header + "".join(f"{line}\n" for line in lines))


def _resolve(roots: tuple[str, ...], leave_out: set[str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "ivy.xml")
        module.write_text(_ivy_module(roots))
        command = ivy_command(
            "-ivy", module, "-cache", Path(folder, "ivy"), "-types", "jar", "bundle",
            "-retrieve", Path(folder, "jars", "[organisation]", "[module]", "[revision]", "[artifact]-[revision].[ext]"),
        )  # fmt: skip
        ivy = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if ivy.returncode:
            raise LocalError(f"could not resolve {' and '.join(roots)}:\n{ivy.stdout[-2000:]}")
        jars = sorted(Path(folder, "jars").glob("*/*/*/*.jar"))
        return [_line(path) for path in jars if path.name not in leave_out]


def _line(path: Path) -> str:
    group, artifact, version = path.parts[-4:-1]
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()} {group}:{artifact}:{version}"


def _ivy_module(roots: tuple[str, ...]) -> str:
    dependencies = "".join(
        re.sub(r"(.*):(.*):(.*)", r'<dependency org="\1" name="\2" rev="\3" conf="default->runtime,master"/>\n', root)
        for root in roots
    )
    return (
        '<ivy-module version="2.0"><info organisation="kstorm" module="jars"/>\n'
        f"<dependencies>\n{dependencies}</dependencies>\n</ivy-module>\n"
    )
