"""Which Java is used, and the launcher that hides a flag from it."""

import subprocess
import sys
from pathlib import Path

import pytest

from kstorm.errors import LocalError
from kstorm.local import java
from kstorm.local.java import find_java, machine_java, spark_environment


def make_java(home: Path, version: str, *, vector: bool = True) -> Path:
    """Write a program that answers as a `java` of that version would, and otherwise prints its arguments."""
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
def test_only_versions_that_kafka_and_spark_both_run_on_are_taken(
    tmp_path: Path, version: str, usable: bool
) -> None:
    """Kafka needs 17, Spark 4.0 does not start where the security manager is gone."""
    home = make_java(tmp_path / "java", version)
    found = machine_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (found is not None) == usable
    if found:
        assert (found.home, found.version) == (home, int(version))


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    """With two usable ones the user's explicit choice wins."""
    chosen, other = make_java(tmp_path / "chosen", "21"), make_java(tmp_path / "other", "17")
    found = machine_java({"JAVA_HOME": str(chosen), "PATH": f"{other}/bin"})
    assert found is not None
    assert found.home == chosen


def test_an_unusable_java_home_leads_to_the_path(tmp_path: Path) -> None:
    """An old `JAVA_HOME` does not hide a newer Java on the path."""
    old, new = make_java(tmp_path / "old", "1.8"), make_java(tmp_path / "new", "17")
    found = machine_java({"JAVA_HOME": str(old), "PATH": f"{new}/bin"})
    assert found is not None
    assert found.home == new


def test_without_any_java_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java, the machine's or the bundled one, the error names `./run`."""
    monkeypatch.setattr(java, "_bundled_java", lambda: None)
    with pytest.raises(LocalError, match=r"no Java 17 to 22 .* \./run"):
        find_java({"PATH": ""})


def test_a_complete_java_is_given_to_spark_as_it_is(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the module that Spark asks for exists, nothing stands between."""
    home = make_java(tmp_path / "java", "17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    environment = spark_environment()
    assert environment["JAVA_HOME"] == str(home)
    assert environment["PYSPARK_PYTHON"] == sys.executable


def test_a_java_without_the_module_gets_a_launcher_that_drops_only_that_flag(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other argument arrives as it was, spaces and empty ones included."""
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
