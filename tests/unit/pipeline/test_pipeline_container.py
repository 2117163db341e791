"""Commands of the driver and executor pods that Spark on Kubernetes starts."""

from itertools import pairwise
from pathlib import Path

import pyspark
import pytest

from kstorm_pipeline.__main__ import main
from kstorm_pipeline.container import driver_command, executor_command
from kstorm_pipeline.errors import SettingsError
from kstorm_pipeline.session import JVM_OPTIONS

SPARK = Path(pyspark.__file__).parent
TOLD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_EXECUTOR_POD_NAME": "wordcount-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def test_executor_command_comes_from_the_environment() -> None:
    """Java options in order, the heap, the classpath, and the arguments of the backend."""
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in (10, 9, 0)}
    command = executor_command(
        {**TOLD, **options, "JAVA_HOME": "/java", "SPARK_CLASSPATH": "/jars/a.jar:/jars/b.jar"}
    )
    java, *rest = command
    assert java == "/java/bin/java"
    assert rest[:5] == ["-Dn=0", "-Dn=9", "-Dn=10", "-Xms512m", "-Xmx512m"]
    assert rest[5:7] == ["-cp", f"/jars/a.jar:/jars/b.jar:{SPARK}/jars/*"]
    backend, *arguments = rest[7:]
    assert backend.endswith(".KubernetesExecutorBackend")
    assert dict(zip(arguments[::2], arguments[1::2], strict=True)) == {
        "--driver-url": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.2",
        "--resourceProfileId": "0",
        "--podName": "wordcount-exec-3",
    }


def test_pyspark_has_the_kubernetes_jars() -> None:
    assert list((SPARK / "jars").glob("spark-kubernetes_*.jar"))


def test_driver_is_spark_submit_with_the_image_jars(tmp_path: Path) -> None:
    """Spark's own arguments come last, and win."""
    (tmp_path / "delta.jar").touch()
    environment = {
        "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1",
        "KSTORM_PIPELINE_JARS": f"{tmp_path}/*.jar",
    }
    given = [
        "--properties-file",
        "/opt/spark/conf/spark.properties",
        "local:///opt/kstorm/pipeline.py",
        "run",
    ]
    submit, *arguments = driver_command(given, environment)
    assert Path(submit).is_file()
    assert arguments[-len(given) :] == given
    assert arguments[-len(given) - 2 : -len(given)] == ["--deploy-mode", "client"]
    settings = dict(part.split("=", 1) for flag, part in pairwise(arguments) if flag == "--conf")
    assert settings == {
        "spark.driver.bindAddress": "10.0.0.1",
        "spark.driver.defaultJavaOptions": JVM_OPTIONS,
        "spark.driver.extraClassPath": str(tmp_path / "delta.jar"),
    }


@pytest.mark.parametrize("missing", sorted(TOLD))
def test_missing_executor_variable_is_named(missing: str) -> None:
    with pytest.raises(SettingsError, match=f"{missing} is not set"):
        executor_command({name: value for name, value in TOLD.items() if name != missing})


def test_roles_without_sparks_environment_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line with the remedy."""
    for name in (*TOLD, "SPARK_DRIVER_BIND_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for word in ("executor", "driver"):
        assert main([word]) == 2
        assert "Spark on Kubernetes starts" in capsys.readouterr().err
