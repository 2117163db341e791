"""`kstorm causes` for a topology of local processes on real servers."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.conftest import RunTopology
from tests.integration.engine import SOURCE_PARTITIONS, Engine
from tests.kstorm_command import says


@pytest.mark.slow
def test_slow_bolt_is_named_with_its_lag(
    run_topology: RunTopology, topic_prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without input the command finds no cause. With input the bolt is the bottleneck with a rising lag.

    If the bolt does not respond, its waiting messages are reported.
    """

    def found() -> list[dict[str, Any]]:
        words = ("causes", topic_prefix, "--runs", str(tmp_path), "--window", "2", "--json")
        causes: list[dict[str, Any]] = json.loads(says(capsys, *words))
        return causes

    with run_topology("slow") as engine:
        assert found() == []
        with _fed(engine):
            engine.until(
                lambda: [cause["kind"] for cause in found()][:1] == ["busy"], 30, "somebody is busy"
            )
            engine.until(lambda: "rising by" in found()[0]["said"], 30, "the lag rises")
            first = found()[0]
        assert first["said"].startswith("slow is the bottleneck: "), first
        assert "slow-0: " in first["evidence"][0]
        os.kill(engine.worker("slow-0").process.pid, signal.SIGSTOP)
        try:
            stopped = found()[0]
        finally:
            os.kill(engine.worker("slow-0").process.pid, signal.SIGCONT)
        assert stopped["said"] == "no process of slow is ready (0 of 1)"
        assert stopped["evidence"][0].startswith("slow-0: is paused by SIGSTOP")
        assert stopped["evidence"][1].startswith("lag ")
        engine.processes.kill()  # otherwise the topology would finish its messages first


@contextmanager
def _fed(engine: Engine) -> Iterator[None]:
    """Feed about four hundred sentences per second, four times the capacity of the bolt."""
    ended = threading.Event()

    producer = Producer({"bootstrap.servers": engine.bootstrap, "log_level": 0})

    def feed() -> None:
        while not ended.wait(0.05):
            for number in range(20):
                producer.produce(engine.source, b"the cow", partition=number % SOURCE_PARTITIONS)
            producer.poll(0)
        producer.flush(30)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        yield
    finally:
        ended.set()
        feeder.join(70)
