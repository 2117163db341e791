"""Fixed versions of `pyspark`'s jars: the file names, the replacements, and the removals."""

from pathlib import Path

import pytest

from kstorm.dev.jar_fixes import artifact, fix_jars, name_and_version, unused
from kstorm.dev.jars import MENDED_SET, read_list
from kstorm.dev.java import spark_home


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("guava", "33.4.0-jre"),
        ("hive-shims-0.23", "2.3.10"),
        ("log4j-1.2-api", "2.26.1"),
        ("netty-transport-native-epoll", "4.1.118.Final-linux-x86_64"),
        ("orc-core", "2.1.2-shaded-protobuf"),
        ("spark-sql-kafka-0-10_2.13", "4.2.0"),
        ("zstd-jni", "1.5.6-9"),
    ],
)
def test_file_name_has_name_and_version(name: str, version: str) -> None:
    """Names may contain digits, and versions may contain words."""
    assert name_and_version(f"{name}-{version}.jar") == (name, version)
    assert name_and_version("py4j0.10.9.9.jar") == ("py4j", "0.10.9.9")
    assert name_and_version("connect-repl") == ("connect-repl", "")


def filled(folder: Path, *names: str) -> Path:
    """Create a folder with such files. The content of each is its name."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(name)
    return folder


def test_jar_replaces_another_version(tmp_path: Path) -> None:
    """It only replaces its own name. A second call changes nothing."""
    jars = filled(
        tmp_path / "jars", "lz4-java-1.8.0.jar", "log4j-api-2.24.3.jar", "log4j-1.2-api-2.24.3.jar"
    )
    new = filled(tmp_path / "new", "lz4-java-1.11.4.jar", "log4j-api-2.26.1.jar", "absent-1.0.jar")
    assert fix_jars(jars, new.iterdir()) == ["log4j-api-2.24.3.jar", "lz4-java-1.8.0.jar"]
    expected = ["log4j-1.2-api-2.24.3.jar", "log4j-api-2.26.1.jar", "lz4-java-1.11.4.jar"]
    assert sorted(path.name for path in jars.iterdir()) == expected
    assert (jars / "lz4-java-1.11.4.jar").read_text() == "lz4-java-1.11.4.jar"
    assert fix_jars(jars, new.iterdir()) == []
    assert sorted(path.name for path in jars.iterdir()) == expected


def test_a_replacement_for_an_earlier_version_of_pyspark_is_removed(tmp_path: Path) -> None:
    """Two versions of Jackson, for example, end a query with a `NoSuchMethodError`.

    A user's own jar stays.
    """
    shipped = ("jackson-annotations-2.21.jar", "netty-all-4.2.0.Final.jar")
    jars = filled(tmp_path / "jars", *shipped, "jackson-annotations-2.18.9.jar", "mine-1.0.jar")
    new = filled(tmp_path / "new", "netty-all-4.2.9.Final.jar")
    assert fix_jars(jars, new.iterdir(), shipped) == [
        "jackson-annotations-2.18.9.jar",
        "netty-all-4.2.0.Final.jar",
    ]
    left = ["jackson-annotations-2.21.jar", "mine-1.0.jar", "netty-all-4.2.9.Final.jar"]
    assert sorted(path.name for path in jars.iterdir()) == left
    assert fix_jars(jars, new.iterdir(), shipped) == []


def test_unused_jars_are_removed(tmp_path: Path) -> None:
    """Hive's old libraries are removed. Spark needs some jars of Hive to read ORC."""
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
    assert fix_jars(jars, []) == sorted([*gone, "connect-repl"])
    assert not unused("spark-sql_2.13-4.2.0.jar")


def test_each_replacement_replaces_something() -> None:
    """A jar with a name that `pyspark` lacks would never be installed."""
    shipped = {artifact(path.name) for path in (spark_home() / "jars").iterdir()}
    assert {jar.artifact for jar in read_list(MENDED_SET)} <= shipped
