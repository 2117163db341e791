"""Writes the lists of `kstorm.dev.jars`, `tools.kafka_releases` and `tools.spark_releases`.
Maintainers run it after changing a version there (`./run lock`).

Ivy resolves each set's roots with their runtime dependencies, and takes the newer of two versions
of a jar. So a root that is also a dependency of others raises its version, which avoids versions
with known vulnerabilities. Jars that Spark already ships are left out of Spark's sets.
"""

import hashlib
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from kstorm.dev.jar_fixes import artifact
from kstorm.dev.jars import (
    DELTA_VERSION,
    HADOOP_VERSION,
    KAFKA_SET,
    KAFKA_VERSION,
    MENDED_SET,
    S3_SET,
    SPARK_SET,
    SPARK_VERSION,
    ZOOKEEPER_SET,
    ZOOKEEPER_VERSION,
    ivy_command,
    list_path,
)
from kstorm.dev.java import spark_home
from kstorm.errors import LocalError
from tools.kafka_releases import (
    NEW_KAFKA_LIST,
    NEW_KAFKA_VERSION,
    OLD_KAFKA_LIST,
    OLD_KAFKA_VERSION,
)
from tools.spark_releases import OLD_SPARK_LIST, OLD_SPARK_VERSION, old_pyspark

_LOGGING: Final = "2.26.1"
_OLD_LOGGING: Final = "1.7.36"
_NETTY: Final = "4.1.137.Final"
_SPARK_NETTY: Final = "4.2.20.Final"
_LZ4: Final = "at.yawk.lz4:lz4-java:1.11.4"
# Two series of Jackson that still get fixes. Kafka 3.9 needs the older one.
_JACKSON: Final = "2.21.8"
_OLD_JACKSON: Final = "2.18.9"

_BESIDE_KAFKA: Final = (
    f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOGGING}",
    f"com.fasterxml.jackson.core:jackson-databind:{_JACKSON}",
    f"com.fasterxml.jackson.dataformat:jackson-dataformat-csv:{_JACKSON}",
    f"com.fasterxml.jackson.dataformat:jackson-dataformat-yaml:{_JACKSON}",
    f"com.fasterxml.jackson.datatype:jackson-datatype-jdk8:{_JACKSON}",
    _LZ4,
)

_SPARK_LIST: Final = list_path(SPARK_SET)
_S3_LIST: Final = list_path(S3_SET)


def _spark_roots(version: str) -> tuple[str, ...]:
    minor = ".".join(version.split(".")[:2])
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        f"org.apache.spark:spark-avro_2.13:{version}",
        f"io.delta:delta-spark_{minor}_2.13:{DELTA_VERSION}",
        "org.apache.kafka:kafka-clients:3.9.2",
        f"com.fasterxml.jackson.datatype:jackson-datatype-jdk8:{_JACKSON}",
    )


_ROOTS: Final = {
    list_path(KAFKA_SET): (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", *_BESIDE_KAFKA),
    NEW_KAFKA_LIST: (f"org.apache.kafka:kafka_2.13:{NEW_KAFKA_VERSION}", *_BESIDE_KAFKA),
    OLD_KAFKA_LIST: (
        f"org.apache.kafka:kafka_2.13:{OLD_KAFKA_VERSION}",
        f"org.slf4j:slf4j-reload4j:{_OLD_LOGGING}",
        f"io.netty:netty-handler:{_NETTY}",
        f"io.netty:netty-transport-native-epoll:{_NETTY}",
        f"com.fasterxml.jackson.core:jackson-databind:{_OLD_JACKSON}",
        f"com.fasterxml.jackson.dataformat:jackson-dataformat-csv:{_OLD_JACKSON}",
        f"com.fasterxml.jackson.datatype:jackson-datatype-jdk8:{_OLD_JACKSON}",
        "com.fasterxml.jackson.module:jackson-module-scala_2.13:2.18.8",
        _LZ4,
    ),
    _SPARK_LIST: _spark_roots(SPARK_VERSION),
    OLD_SPARK_LIST: _spark_roots(OLD_SPARK_VERSION),
    _S3_LIST: (f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}",),
}

# Replacements for other versions in `pyspark`. They need no dependencies, because those are already
# there.
_MENDED: Final = (
    _LZ4,
    *(
        f"org.apache.logging.log4j:log4j-{part}:{_LOGGING}"
        for part in ("1.2-api", "api", "core", "slf4j2-impl", "layout-template-json")
    ),
    *(
        f"io.netty:netty-{part}:{_SPARK_NETTY}"
        for part in (
            "all",
            "buffer",
            "codec",
            "codec-base",
            "codec-compression",
            "codec-dns",
            "codec-http",
            "codec-http2",
            "codec-socks",
            "common",
            "handler",
            "handler-proxy",
            "resolver",
            "resolver-dns",
            "transport",
            "transport-classes-epoll",
            "transport-classes-kqueue",
            "transport-native-unix-common",
        )
    ),
    *(f"com.fasterxml.jackson.core:jackson-{part}:{_JACKSON}" for part in ("core", "databind")),
    f"com.fasterxml.jackson.dataformat:jackson-dataformat-yaml:{_JACKSON}",
    f"com.fasterxml.jackson.datatype:jackson-datatype-jsr310:{_JACKSON}",
    f"com.fasterxml.jackson.module:jackson-module-scala_2.13:{_JACKSON}",
    *(
        f"io.vertx:vertx-{part}:4.5.27"
        for part in ("core", "auth-common", "uri-template", "web-client", "web-common")
    ),
)


# ZooKeeper's server names older versions of these.
_ZOOKEEPER: Final = (
    f"org.apache.zookeeper:zookeeper:{ZOOKEEPER_VERSION}",
    f"org.apache.zookeeper:zookeeper-jute:{ZOOKEEPER_VERSION}",
    "io.dropwizard.metrics:metrics-core:4.2.30",
    "org.xerial.snappy:snappy-java:1.1.10.7",
    "commons-io:commons-io:2.18.0",
    *(
        f"io.netty:netty-{part}:{_NETTY}"
        for part in ("buffer", "codec", "common", "handler", "resolver", "transport")
    ),
    # A server with TLS loads classes of these two.
    f"io.netty:netty-transport-classes-epoll:{_NETTY}",
    f"io.netty:netty-transport-native-unix-common:{_NETTY}",
    "org.slf4j:slf4j-api:2.0.16",
    *(
        f"org.apache.logging.log4j:log4j-{part}:{_LOGGING}"
        for part in ("api", "core", "slf4j2-impl")
    ),
)


def write_lists() -> None:
    """Resolve every set of jars and write its list. Takes about a minute per set."""
    shipped = _shipped(spark_home())
    leave_out = {
        _SPARK_LIST: shipped,
        _S3_LIST: shipped,
        OLD_SPARK_LIST: _shipped(old_pyspark() / "pyspark"),
    }
    for jar_list, roots in _ROOTS.items():
        _write(jar_list, roots, _resolve(roots, leave_out.get(jar_list, set())))
    for jar_list, roots in (
        (list_path(ZOOKEEPER_SET), _ZOOKEEPER),
        (list_path(MENDED_SET), _MENDED),
    ):
        _write(jar_list, roots, _resolve(roots, leave_out=set(), alone=True))


def _shipped(spark: Path) -> set[str]:
    return {artifact(path.name) for path in (spark / "jars").iterdir()}


def _write(jar_list: Path, roots: tuple[str, ...], lines: list[str]) -> None:
    header = f"# Written by tools.jar_lock from {' and '.join(roots)}.\n"
    jar_list.write_text(header + "".join(f"{line}\n" for line in lines))


def _resolve(roots: tuple[str, ...], leave_out: set[str], *, alone: bool = False) -> list[str]:
    """Return the lines of a list: the roots with their dependencies, or without them if `alone`."""
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "ivy.xml")
        module.write_text(_ivy_module(roots, alone=alone))
        command = ivy_command(
            "-ivy", module, "-cache", Path(folder, "ivy"), "-types", "jar", "bundle",
            "-retrieve", Path(folder, "jars", "[organisation]", "[module]", "[revision]", "[artifact]-[revision].[ext]"),
        )  # fmt: skip
        ivy = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if ivy.returncode:
            raise LocalError(f"could not resolve {' and '.join(roots)}:\n{ivy.stdout[-2000:]}")
        jars = sorted(Path(folder, "jars").glob("*/*/*/*.jar"))
        return [_line(path) for path in jars if artifact(path.name) not in leave_out]


def _line(path: Path) -> str:
    group, artifact, version = path.parts[-4:-1]
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()} {group}:{artifact}:{version}"


def _ivy_module(roots: tuple[str, ...], *, alone: bool) -> str:
    needs = (
        'conf="default->master" transitive="false"' if alone else 'conf="default->runtime,master"'
    )
    dependencies = "".join(
        re.sub(r"(.*):(.*):(.*)", rf'<dependency org="\1" name="\2" rev="\3" {needs}/>\n', root)
        for root in roots
    )
    return (
        '<ivy-module version="2.0"><info organisation="kstorm" module="jars"/>\n'
        f"<dependencies>\n{dependencies}</dependencies>\n</ivy-module>\n"
    )
