"""What `pyspark` ships, mended: the names of its jars, what takes their places, and what goes."""

from pathlib import Path

import pytest

from kstorm.local.jars import MENDED_SET, read_list
from kstorm.local.java import spark_home
from kstorm.local.mend import artifact, mend, name_and_version, unused


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("guava", "33.4.0-jre"),
        ("hive-shims-0.23", "2.3.10"),
        ("log4j-1.2-api", "2.26.1"),
        ("netty-transport-native-epoll", "4.1.118.Final-linux-x86_64"),
        ("orc-core", "2.1.2-shaded-protobuf"),
        ("spark-sql-kafka-0-10_2.13", "4.0.0"),
        ("zstd-jni", "1.5.6-9"),
    ],
)
def test_a_file_is_a_name_and_a_version(name: str, version: str) -> None:
    """Names may have numbers and versions words."""
    assert name_and_version(f"{name}-{version}.jar") == (name, version)
    assert name_and_version("py4j0.10.9.9.jar") == ("py4j", "0.10.9.9")
    assert name_and_version("connect-repl") == ("connect-repl", "")


def filled(folder: Path, *names: str) -> Path:
    """A folder with such files, whose content is their name."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(name)
    return folder


def test_a_jar_takes_the_place_of_another_version(tmp_path: Path) -> None:
    """Of its own name alone; done again, nothing changes."""
    jars = filled(
        tmp_path / "jars", "lz4-java-1.8.0.jar", "log4j-api-2.24.3.jar", "log4j-1.2-api-2.24.3.jar"
    )
    new = filled(tmp_path / "new", "lz4-java-1.11.4.jar", "log4j-api-2.26.1.jar", "absent-1.0.jar")
    assert mend(jars, new.iterdir()) == ["log4j-api-2.24.3.jar", "lz4-java-1.8.0.jar"]
    expected = ["log4j-1.2-api-2.24.3.jar", "log4j-api-2.26.1.jar", "lz4-java-1.11.4.jar"]
    assert sorted(path.name for path in jars.iterdir()) == expected
    assert (jars / "lz4-java-1.11.4.jar").read_text() == "lz4-java-1.11.4.jar"
    assert mend(jars, new.iterdir()) == []
    assert sorted(path.name for path in jars.iterdir()) == expected


def test_what_nothing_uses_goes(tmp_path: Path) -> None:
    """With Hive its old libraries; not what Spark needs of Hive's to read ORC."""
    gone = (
        "commons-lang-2.6.jar",
        "derby-10.16.1.1.jar",
        "hive-exec-2.3.10-core.jar",
        "jackson-mapper-asl-1.9.13.jar",
    )
    jars = filled(
        tmp_path / "jars", "commons-lang3-3.17.0.jar", "hive-storage-api-2.8.1.jar", *gone
    )
    (jars / "connect-repl").mkdir()
    assert mend(jars, []) == sorted([*gone, "connect-repl"])
    assert not unused("spark-sql_2.13-4.0.0.jar")


def test_each_replacement_replaces_something() -> None:
    """One whose name `pyspark` does not have would never get there."""
    shipped = {artifact(path.name) for path in (spark_home() / "jars").iterdir()}
    assert {jar.artifact for jar in read_list(MENDED_SET)} <= shipped
