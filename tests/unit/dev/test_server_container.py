"""The settings of the Kafka and ZooKeeper images from their environment."""

import socket
from pathlib import Path

import pytest

from kstorm.dev import server_container
from kstorm.errors import LocalError


def test_kafka_has_the_configured_listeners(tmp_path: Path) -> None:
    """It advertises the host's name by default, or the name of its Service."""
    settings = server_container.kafka_settings({}, tmp_path)
    assert settings["listeners"] == "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093"
    assert settings["advertised.listeners"] == f"PLAINTEXT://{socket.gethostname()}:9092"
    assert settings["log.dirs"] == str(tmp_path / "log")
    environ = {
        "KSTORM_LISTEN_PORT": "19092",
        "KSTORM_ADVERTISED_LISTENERS": "PLAINTEXT://kafka.test:19092",
    }
    settings = server_container.kafka_settings(environ, tmp_path)
    assert settings["listeners"].startswith("PLAINTEXT://:19092,")
    assert settings["advertised.listeners"] == "PLAINTEXT://kafka.test:19092"


def test_own_settings_win(tmp_path: Path) -> None:
    """There is one per line. A value may contain an equals sign."""
    environ = {"KSTORM_SETTINGS": "tickTime = 2000\n\n# for metrics\nextra=a=b"}
    settings = server_container.zookeeper_settings(environ, tmp_path)
    assert (settings["tickTime"], settings["extra"], settings["clientPort"]) == (
        "2000",
        "a=b",
        "2181",
    )


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "KSTORM_LISTEN_PORT",
            "tcp://10.96.0.7:9092",
            "KSTORM_LISTEN_PORT is 'tcp://10.96.0.7:9092'; give a port",
        ),
        ("KSTORM_LISTEN_PORT", "9093", "other than 9093"),
        (
            "KSTORM_SETTINGS",
            "no equals sign",
            "KSTORM_SETTINGS has the line 'no equals sign'; give name=value",
        ),
    ],
)
def test_error_names_the_variable(variable: str, value: str, says: str, tmp_path: Path) -> None:
    """It has the value and the remedy too."""
    with pytest.raises(LocalError, match=says.replace(".", r"\.")):
        server_container.kafka_settings({variable: value}, tmp_path)


def test_unwritable_data_folder_ends_the_container_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An example is a missing volume."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("KSTORM_DATA_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("sys.argv", ["container", "zookeeper"])
    with pytest.raises(SystemExit) as ended:
        server_container.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("kstorm-zookeeper: cannot write to KSTORM_DATA_DIR: ")
