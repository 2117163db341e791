"""A resting spout process looks for messages, and then gives its spouts their turn at once."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.runtime.service import spout as spout_module
from kstorm.runtime.service.spout import SpoutDriver


class Stand:
    """The parts of a driver that the look uses."""

    def __init__(self, *, rest: float, active: bool) -> None:
        self.engine = SimpleNamespace(rest=rest, active=active, emit="a turn", in_flight=0)
        self.looks = self.wakes = 0
        self.performed: list[Any] = []
        self.idle = SimpleNamespace(wake=self._wake)
        self._resources = SimpleNamespace(fetch=self._fetch)
        self._stopping = False

    def _wake(self) -> None:
        self.wakes += 1

    def _fetch(self) -> bool:
        self.looks += 1
        return self.looks == 2

    def perform_event(self, event: Any) -> None:
        self.performed.append(event)
        self._stopping = True

    def look(self) -> None:
        driver: Any = self

        async def some_looks() -> None:
            await asyncio.wait_for(SpoutDriver._look_for_messages(driver), 5)

        asyncio.run(some_looks())


def test_messages_end_the_rest() -> None:
    stand = Stand(rest=1.0, active=True)
    stand.look()
    assert (stand.looks, stand.wakes, stand.performed) == (2, 1, ["a turn"])


@pytest.mark.parametrize(("rest", "active"), [(0.0, True), (1.0, False)])
def test_nothing_is_fetched_for_spouts_that_work_or_must_not(
    monkeypatch: pytest.MonkeyPatch, rest: float, active: bool
) -> None:
    monkeypatch.setattr(spout_module, "_LOOK_SECS", 0)
    stand = Stand(rest=rest, active=active)
    if not rest:
        stand.engine.rest = -1.0
    turns = 0

    async def sleep(_: float) -> None:
        nonlocal turns
        turns += 1
        stand._stopping = turns == 3

    monkeypatch.setattr(asyncio, "sleep", sleep)
    stand.look()
    assert (turns, stand.looks, stand.performed) == (3, 0, [])


class Own(KafkaSpout):
    def next_tuple(self) -> None:
        """Emit a message that is not from Kafka."""


@pytest.mark.parametrize("kind", [KafkaSpout, Own])
@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("in_flight", [0, 1])
def test_only_spouts_of_kafka_alone_are_quiet(
    monkeypatch: pytest.MonkeyPatch, kind: type[KafkaSpout], finished: bool, in_flight: int
) -> None:
    monkeypatch.setattr(KafkaSpout, "is_quiet", finished)
    spout = kind(SpoutConfig(KafkaHosts(), "t", "", "s"))
    driver: Any = SimpleNamespace(
        engine=SimpleNamespace(in_flight=in_flight), components=lambda: [(1, spout)]
    )
    assert SpoutDriver._is_quiet(driver) == (kind is KafkaSpout and finished and not in_flight)
