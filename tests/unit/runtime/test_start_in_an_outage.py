"""Kafka may stop responding while a process starts, and respond again before it is asked once more."""

from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog

from kstorm.errors import BrokerError, KstormError, NoBrokerError
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.service import run

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
