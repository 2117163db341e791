"""The servers of a demo start side by side, and none is left."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kstorm.dev.demo import demo_servers
from kstorm.dev.demo.demo_servers import DemoServers
from kstorm.errors import LocalError


class StandIn:
    """A server that starts on the test's signal."""

    bootstrap = "127.0.0.1:1"
    connect = "127.0.0.1:2"
    process = SimpleNamespace(name="it")

    def __init__(self, *_: object, **__: object) -> None:
        self.may_start, self.starting = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.abandoned = False

    def start(self) -> None:
        self.starting.set()
        while not self.may_start.wait(0.01):
            if self.abandoned:
                raise LocalError("was stopped during its start")
        if self.error:
            raise self.error

    def abandon(self) -> None:
        self.abandoned = True

    def check(self) -> None:
        if self.error:
            raise self.error


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> list[StandIn]:
    made = [StandIn(), StandIn()]
    monkeypatch.setattr(demo_servers, "EmbeddedKafka", lambda *_, **__: made[0])
    monkeypatch.setattr(demo_servers, "EmbeddedZooKeeper", lambda *_, **__: made[1])
    return made


def test_both_start_at_once_and_are_waited_for(stand_ins: list[StandIn], tmp_path: Path) -> None:
    shares: list[float] = []
    with DemoServers(tmp_path) as both:
        for each in stand_ins:
            assert each.starting.wait(10)
        assert (both.bootstrap, both.zookeeper) == ("127.0.0.1:1", "127.0.0.1:2")
        stand_ins[1].may_start.set()

        def on_look(share: float) -> None:
            shares.append(share)
            if share == 0.5:
                stand_ins[0].may_start.set()

        both.wait(on_look)
        assert len(both.processes) == 2
    assert 0.5 in shares
    assert all(each.abandoned for each in stand_ins)


def test_a_failure_does_not_wait_for_the_other(stand_ins: list[StandIn], tmp_path: Path) -> None:
    stand_ins[0].error = LocalError("its port is taken")
    stand_ins[0].may_start.set()

    def start() -> None:
        with DemoServers(tmp_path) as both:
            both.wait(lambda share: None)

    began = time.monotonic()
    with pytest.raises(LocalError, match="its port is taken"):
        start()
    assert time.monotonic() - began < 10
    assert all(each.abandoned for each in stand_ins)


def test_a_server_that_has_ended_is_noticed(stand_ins: list[StandIn], tmp_path: Path) -> None:
    for each in stand_ins:
        each.may_start.set()

    def run() -> None:
        with DemoServers(tmp_path) as both:
            both.wait(lambda share: None)
            both.check()
            stand_ins[1].error = LocalError("zookeeper ended with exit code 1")
            both.check()

    with pytest.raises(LocalError, match="zookeeper ended"):
        run()


def test_the_users_own_servers_are_neither_started_nor_stopped(
    stand_ins: list[StandIn], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(*_: Any, **__: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(demo_servers, "EmbeddedKafka", unwanted)
    monkeypatch.setattr(demo_servers, "EmbeddedZooKeeper", unwanted)
    with DemoServers(tmp_path, "kafka:9092", "zookeeper:2181") as own:
        own.wait(lambda share: None)
        own.check()
        assert (own.bootstrap, own.processes) == ("kafka:9092", [])
