"""Secrets in mounted files: Spark gets them, and processes, logs and pages do not show them."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kstorm.dev.free_ports import reserve_port
from kstorm.dev.java import SHORT_RUN_OPTIONS, spark_environment
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.servers import EmbeddedKafka
from tests.pipeline.conftest import await_condition
from tests.pipeline.sink import Sink
from tests.spark_release import SELECTED, spark_jars
from tools.spark_releases import OLD_SPARK_VERSION

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
PIPELINE = """
import os
from pathlib import Path

from pyspark.sql import SparkSession

from kstorm_pipeline import Pipeline

pipeline = Pipeline()


@pipeline.batch
def note(fresh, batch):
    context = SparkSession.active().sparkContext
    keys = [context._jsc.hadoopConfiguration().get(f"fs.s3a.{name}") for name in ("secret.key", "session.token")]
    found = [*keys, context.getConf().get("spark.words.own")]
    Path(os.environ["TOLD"]).write_text(" ".join(found))
"""
IN_FILES = {
    "SPARK_CONF": {
        "spark.hadoop.fs.s3a.secret.key": "canary-key",
        "spark.words.own": "canary-unnamed",
    },
    "KAFKA_OPTIONS": {"ssl.truststore.password": "canary-kafka"},
    "SCHEMA_REGISTRY_OPTIONS": {"basic.auth.user.info": "words:canary-registry"},
}
BY_VARIABLE = {"spark.hadoop.fs.s3a.session.token": "canary-variable"}
# These settings enable encryption. A Spark that starts executors itself passes them this secret by
# a variable.
ENCRYPTED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "not-a-secret-of-the-users",
    "spark.network.crypto.enabled": "true",
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Write the files, and return the variables that name them. One secret is in its variable."""
    (tmp_path / "noting.py").write_text(PIPELINE)
    given = {
        "TOLD": str(tmp_path / "told"),
        "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    }
    for name, content in IN_FILES.items():
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(content))
        given[f"KSTORM_PIPELINE_{name}_FILE"] = str(file)
    return {
        **spark_environment(),
        **given,
        "KSTORM_PIPELINE_SPARK_CONF": json.dumps(BY_VARIABLE | ENCRYPTED),
    }


def page(port: int, name: str) -> str:
    """Return a page of the run, or nothing if the run serves none yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=5) as answer:
            text: str = answer.read().decode()
    except OSError:
        return ""
    return text


def processes(pid: int) -> Iterator[tuple[str, str]]:
    """Return command lines and environments of a process and its descendants."""
    for each in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # one may end just now
            yield " ".join(each.cmdline()), json.dumps(each.environ())


def classes_into(file: Path) -> str:
    """Return the JVM option that logs loaded classes."""
    return f"-Xlog:class+load:file={file}"


def ciphers(folder: Path, ours: str) -> list[str]:
    """Return Spark's ciphers that a JVM has loaded, from its class log."""
    found = re.findall(
        r"network\.crypto\.(\w+TransportCipher) ", (folder / f"{ours}.classes").read_text()
    )
    return [name for name in found if name != "TransportCipher"]


@pytest.mark.skipif(SELECTED != OLD_SPARK_VERSION, reason="newer releases can encrypt")
def test_old_spark_is_not_started_with_encryption(
    kafka: EmbeddedKafka, environment: dict[str, str], tmp_path: Path
) -> None:
    sink = Sink(kafka.bootstrap)
    sink.sentence(1, "the cat")
    sink.flush()
    command = [sys.executable, "-m", "kstorm_pipeline", "run", f"--topic={sink.topic}"]
    command += [f"--bootstrap-servers={kafka.bootstrap}", f"--tables={tmp_path / 'tables'}"]
    command += ["--spark-conf=spark.network.crypto.enabled=true"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "loses encrypted messages (SPARK-56227): use Spark 4.2.0" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(SELECTED == OLD_SPARK_VERSION, reason="this release cannot encrypt")
def test_mounted_secrets_are_not_exposed(
    kafka: EmbeddedKafka, environment: dict[str, str], tmp_path: Path
) -> None:
    """Neither on command lines nor in environments of the driver, the executors and their children.
    A variable set by the user is in the environment only. Traffic between driver and executors is
    encrypted with a cipher that detects changes."""
    port, told = reserve_port(), tmp_path / "told"
    sink = Sink(kafka.bootstrap)
    sink.sentence(1, "the cat")
    sink.flush()
    jars = ",".join(f"local:{jar}" for jar in spark_jars())
    flags = {
        "bootstrap-servers": kafka.bootstrap,
        "topic": sink.topic,
        "tables": tmp_path / "tables",
        "pipeline": "noting:pipeline",
        "trigger": "continuous",
        "http-port": port,
        "master": "local-cluster[1,1,512]",
        "spark-conf": "spark.executor.memory=512m",
        "shuffle-partitions": 1,
        "driver-java-options": f"{SHORT_RUN_OPTIONS} {classes_into(tmp_path / 'driver.classes')}",
        "jars": jars,
    }
    observed = f"--spark-conf=spark.executor.extraJavaOptions={classes_into(tmp_path / 'executor.classes')}"
    given = [f"--{name}={value}" for name, value in flags.items()]
    command = [sys.executable, "-m", "kstorm_pipeline", "run", *given, observed]
    run = ManagedProcess("driver", command, workdir=tmp_path, environment=environment)
    run.start()
    try:
        await_condition(lambda: told.exists() or not run.alive, 240)
        assert run.alive, run.log_path.read_text()
        commands, environments = zip(*processes(run.pid), strict=True)
        loaded = [ciphers(tmp_path, jvm) for jvm in ("driver", "executor")]
        pages = [page(port, name) for name in ("metrics", "readyz", "livez")]
    finally:
        run.stop(60)
    assert told.read_text() == "canary-key canary-variable canary-unnamed"
    [executor] = [each for each in commands if EXECUTOR in each]
    assert "-Dspark.network.crypto.authEngineVersion=2 " in executor
    assert loaded == [["GcmTransportCipher"], ["GcmTransportCipher"]]
    assert "kstorm_pipeline_rows_total" in pages[0]
    log = run.log_path.read_text()
    seen = "\n".join((*commands, *pages, log))
    assert "canary" not in seen
    own = json.dumps(json.dumps(BY_VARIABLE | ENCRYPTED))
    assert "canary" not in "\n".join(environments).replace(own, "")
