"""`kstorm.dev.kafka_format`, with a stand-in for Kafka's tool."""

from pathlib import Path

import pytest

from kstorm.dev.kafka_format import format_folder, is_formatted

_JARS = [Path("kafka_2.13-4.1.2.jar")]


class Tool:
    """Writes what Kafka's tool writes."""

    def __init__(self, folder: Path, *, features: str = "features") -> None:
        self._folder, self._features = folder, features

    def __call__(self) -> None:
        self._folder.mkdir(parents=True)
        if self._features:
            (self._folder / "bootstrap.checkpoint").write_text(self._features)
        (self._folder / "meta.properties").write_text("version=1\ncluster.id=first\n")


def not_needed() -> None:
    raise AssertionError("Kafka's tool ran once more")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSTORM_CACHE", str(tmp_path / "cache"))


def test_the_tool_runs_once_for_a_release(tmp_path: Path) -> None:
    first, second, third = tmp_path / "first", tmp_path / "second", tmp_path / "third"
    format_folder(first, "A", "1", _JARS, Tool(first))
    format_folder(second, "B", "2", _JARS, not_needed)
    assert (second / "bootstrap.checkpoint").read_text() == "features"
    identity = dict(
        line.split("=") for line in (second / "meta.properties").read_text().splitlines()
    )
    assert (identity.pop("version"), identity.pop("cluster.id"), identity.pop("node.id")) == (
        "1",
        "B",
        "2",
    )
    assert len(identity.pop("directory.id")) == 22
    assert not identity
    other_jars = [Path("kafka_2.13-4.4.0.jar")]
    format_folder(third, "C", "1", other_jars, Tool(third, features="newer"))
    assert (third / "bootstrap.checkpoint").read_text() == "newer"


def test_folders_of_one_cluster_have_different_ids(tmp_path: Path) -> None:
    format_folder(tmp_path / "0", "A", "1", _JARS, Tool(tmp_path / "0"))
    for name in "12":
        format_folder(tmp_path / name, "A", "1", _JARS, not_needed)
    one, two = ((tmp_path / name / "meta.properties").read_text() for name in "12")
    assert one != two


def test_a_tool_that_failed_runs_again(tmp_path: Path) -> None:
    def fails() -> None:
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="space"):
        format_folder(tmp_path / "log", "A", "1", _JARS, fails)
    assert not is_formatted(tmp_path / "log")
    format_folder(tmp_path / "log", "A", "1", _JARS, Tool(tmp_path / "log"))
    assert is_formatted(tmp_path / "log")


def test_a_node_without_features_keeps_none(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    format_folder(first, "A", "2", _JARS, Tool(first, features=""))
    format_folder(second, "B", "1", _JARS, Tool(second))
    assert (second / "bootstrap.checkpoint").read_text() == "features"


def test_a_cache_that_cannot_be_written_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the folder's place")
    for name in "12":
        format_folder(tmp_path / name, "A", "1", _JARS, Tool(tmp_path / name))
        assert is_formatted(tmp_path / name)
