"""The steps of a checkpoint in which a stateful bolt has a part: `pre_prepare`, `pre_commit`, `pre_rollback`."""

from typing import Any, ClassVar

import pytest

from kstorm.core.engine import BoltEngine
from kstorm.core.engine.effects import ApplyToStore, Send, Transact
from kstorm.core.state import TaskState
from tests.unit.core.engines import Driven, Journal, frame
from tests.unit.core.test_bolt_engine import Count, driven, topology


class Hooked(Count):
    """Notes its steps, and writes in `pre_prepare` what it gathered."""

    steps: ClassVar[list[str]] = []

    def init_state(self, state: Any) -> None:
        self.steps.append("init_state")
        super().init_state(state)

    async def pre_prepare(self, checkpoint_id: int) -> None:
        self.steps.append(f"pre_prepare {checkpoint_id}")
        self.state.put("gathered", checkpoint_id)

    def pre_commit(self, checkpoint_id: int) -> None:
        self.steps.append(f"pre_commit {checkpoint_id}")

    def pre_rollback(self) -> None:
        self.steps.append("pre_rollback")


def test_a_bolt_has_a_part_in_its_checkpoint() -> None:
    """What `pre_prepare` puts is in the transaction; `pre_commit` comes when that is durable, and before the acks."""
    Hooked.steps = []
    bolt = driven(Hooked())
    bolt.assign(t0=7)
    bolt.poll(0, frame(7, "a"))
    bolt.deliver()
    bolt.effects.clear()
    bolt.tick(1)
    (transact,) = bolt.take(Transact)
    assert dict(transact.changes[0])[b"gathered"] == b"\x01"
    assert Hooked.steps == ["init_state", "pre_prepare 1"]
    bolt.do(bolt.engine.committed(transact, {0: 0}, bolt.now))
    assert Hooked.steps == ["init_state", "pre_prepare 1", "pre_commit 1"]
    assert [type(effect) for effect in bolt.effects] == [ApplyToStore, Send]


@pytest.mark.parametrize(
    ("stored", "steps"), [({}, ["init_state"]), ({b"a": b"\x01"}, ["pre_rollback", "init_state"])]
)
def test_a_bolt_hears_of_an_earlier_life(stored: dict[bytes, bytes], steps: list[str]) -> None:
    """Before its state, if there is any."""
    Hooked.steps = []
    engine = BoltEngine(
        topology(Hooked()),
        "bolt",
        Journal(),
        next_id=lambda: 1,
        load_state=lambda task: TaskState(stored.get, lambda start: stored.items()),
    )
    Driven(engine).assign(t0=0)
    assert Hooked.steps == steps
