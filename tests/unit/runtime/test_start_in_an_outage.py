"""Kafka may stop responding while a process starts, and respond again before it is asked once more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog
from structlog.testing import capture_logs

from kstorm.dev.free_ports import reserve_port
from kstorm.errors import BrokerError, KstormError, NoBrokerError
from kstorm.runtime.base import open_port
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.service import outage, run

REFERENCE = "examples.wordcount.topology:topology"


@pytest.mark.parametrize(
    ("error", "code"),
    [(NoBrokerError("no Kafka broker answered"), 1), (BrokerError("the login was refused"), 2)],
)
def test_only_errors_for_an_operator_exit_with_2(
    error: KstormError,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`kstorm dev` gives up on a process that exited with 2, and restarts one that exited with 1."""

    def fail(*_: Any) -> NoReturn:
        raise error

    def respond(*_: Any) -> None:
        """Kafka responds whenever it is only asked whether it is there."""

    monkeypatch.setenv("KSTORM_TOPOLOGY", REFERENCE)
    monkeypatch.setenv("KSTORM_COMPONENT", "split")
    monkeypatch.setenv("KSTORM_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(run, "wait_for_kafka", respond)
    monkeypatch.setattr(Admin, "partition_counts", respond)
    monkeypatch.setattr(run, "ensure_topics", fail)
    monkeypatch.setattr(
        "kstorm.runtime.base.log.configure", lambda *_, **__: structlog.get_logger()
    )
    with pytest.raises(SystemExit) as ended:
        run.run("bolt", fail)
    assert ended.value.code == code
    assert str(error) in capsys.readouterr().err


@pytest.fixture
def port() -> Iterator[int]:
    """A port for the pages of an outage, which stays open until a web server takes it."""
    yield reserve_port()
    for each in open_port.take():
        each.close()
    open_port.close()


def test_client_that_does_not_connect_is_replaced(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod waited for minutes for a Kafka to which a new client connected at once."""
    failed = list[Admin]()

    def respond(admin: Admin, _within: float) -> dict[str, int]:
        if admin in failed or not failed:
            failed.append(admin)
            raise NoBrokerError("no Kafka broker answered")
        return {}

    monkeypatch.setattr(Admin, "partition_counts", respond)
    settings = Settings(topology=REFERENCE, data_dir=tmp_path, web_host="127.0.0.1", web_port=port)
    with capture_logs() as log:
        outage.wait_for_kafka(settings, "bolt", "wordcount", structlog.get_logger())
    assert [entry["event"] for entry in log] == ["kafka_is_away", "kafka_is_back"]
    assert len(failed) > 1
