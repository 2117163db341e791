"""The bolt's backlog while its serializer has no answer: its size, age and order."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kstorm.errors import NotYetError
from kstorm.kafka import KAFKA, KafkaBolt
from kstorm.kafka.serializer_backlog import SerializerBacklog
from kstorm.topology import Config, TupleBatch
from tests.unit.kafka.test_kafka_bolt import Outcomes, context, prepared, tup

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World

TIMEOUT_SECS = 0.05


class Registry:
    """A serializer that responds only while its registry is available."""

    there = False

    def serialize(self, topic: str, value: object) -> bytes | None:
        if not Registry.there:
            raise NotYetError("the registry does not answer")
        return str(value).encode()


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the registry unavailable, and the bolt retry quickly."""
    monkeypatch.setattr(Registry, "there", False)
    monkeypatch.setattr("kstorm.kafka.bolt._TRY_AGAIN_SECS", 0.001)


def bolt() -> KafkaBolt:
    return KafkaBolt().with_topic_selector("t").with_value_serializer(Registry())


def impatient(world: "World", made: KafkaBolt) -> Outcomes:
    """Prepares a bolt whose tuples time out soon."""
    outcomes = Outcomes()
    config = Config(topology_message_timeout_secs=TIMEOUT_SECS)
    made.prepare(config, context(made, {KAFKA: world.ports}), outcomes)
    return outcomes


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_replay_replaces_its_expired_tuple(world: "World") -> None:
    """A tuple that waited for the message timeout fails, and only its replay is held.

    A hundred messages that are replayed twelve times are never more than a hundred held tuples.
    """
    made = bolt()
    outcomes = impatient(world, made)
    for replays in range(12):
        tuples = [tup(message=number) for number in range(100)]
        for each in tuples:
            assert made.execute(each) is None
        assert made.metrics()["held"] == 100
        await until(lambda replays=replays: len(outcomes.failed) == 100 * (replays + 1))  # type: ignore[misc]
        assert outcomes.failed[-100:] == tuples
    assert (made.metrics()["held"], made.metrics()["expired"]) == (0, 1200)
    assert (outcomes.acked, world.writer.records) == ([], [])


async def test_one_that_waits_for_its_own_record_fails_as_well(world: "World") -> None:
    """The bolt is synchronous, so the next tuple follows the failure."""
    made = bolt().with_async(False)
    outcomes = impatient(world, made)
    tuple = tup()
    executing = made.execute(tuple)
    assert executing is not None
    async with asyncio.timeout(10):
        await executing
    assert (outcomes.failed, outcomes.acked, made.metrics()["expired"]) == ([tuple], [], 1)


@pytest.mark.parametrize("bound", ["MOST_TUPLES", "MOST_BYTES"])
async def test_too_many_wait_where_they_are(
    world: "World", monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """With a full backlog, `execute` blocks, and the input stays in Kafka.

    In the end everything is written in order.
    """
    monkeypatch.setattr(
        f"kstorm.kafka.serializer_backlog.{bound}", 3 if bound == "MOST_TUPLES" else 2500
    )
    made = bolt()
    outcomes = prepared(world, made)
    messages = [f"{number}" * 1000 for number in range(5)]
    for message in messages[:3]:
        assert made.execute(tup(message=message)) is None
    waiting = []
    for message in messages[3:]:
        executing = made.execute(tup(message=message))
        assert executing is not None
        waiting.append(asyncio.ensure_future(executing))
    for _ in range(5):
        await asyncio.sleep(0.002)
    assert made.metrics()["held"] == 3
    assert [each.done() for each in waiting] == [False, False]
    monkeypatch.setattr(Registry, "there", True)
    await until(lambda: len(world.writer.records) == 5)
    await asyncio.gather(*waiting)
    assert [record[2] for record in world.writer.records] == [
        message.encode() for message in messages
    ]
    for record in world.writer.records:
        record[-1](None, object())
    assert (len(outcomes.acked), outcomes.failed) == (5, [])


async def test_expired_tuples_free_capacity(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting caller waits at most for the message timeout, even if the registry stays away."""
    monkeypatch.setattr("kstorm.kafka.serializer_backlog.MOST_TUPLES", 2)
    made = bolt()
    outcomes = impatient(world, made)
    first = [tup(), tup()]
    for each in first:
        made.execute(each)
    executing = made.execute(tup())
    assert executing is not None
    async with asyncio.timeout(10):
        await executing
    assert outcomes.failed[0] is first[0]


async def test_a_batch_that_the_broker_refused_waits_for_the_registry_too(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bolt rewrites its records one by one and outside `execute`, so it cannot wait for room.

    It holds them beyond the limit.
    """
    monkeypatch.setattr("kstorm.kafka.serializer_backlog.MOST_TUPLES", 1)
    monkeypatch.setattr(Registry, "there", True)
    made = bolt()
    outcomes = prepared(world, made)
    assert made.execute_batch(TupleBatch(tup().source, [["k"] * 3, [1, 2, 3], ["t"] * 3])) is None
    monkeypatch.setattr(Registry, "there", False)
    world.writer.batches[0][-1](["too large"])
    assert (made.metrics()["held"], outcomes.failed) == (3, [])
    monkeypatch.setattr(Registry, "there", True)
    await until(lambda: len(world.writer.records) == 3)
    assert [record[2] for record in world.writer.records] == [b"1", b"2", b"3"]


async def test_a_closed_bolt_holds_nothing(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """The next owner executes the held tuples, and both must not write them."""
    made = bolt()
    prepared(world, made)
    made.execute(tup())
    await made.cleanup()
    monkeypatch.setattr(Registry, "there", True)
    for _ in range(5):
        await asyncio.sleep(0.002)
    assert (world.writer.records, made.metrics()["held"]) == ([], 0)


def test_bytes_are_counted_in_and_out() -> None:
    """This includes values that are not text."""
    held = SerializerBacklog(1.0, lambda: 0.0)
    held.add("t", tup(message={"word": "x" * (16 << 20)}))
    assert held.full
    held.add("t", tup())
    held.take_first()
    assert not held.full
    assert len(held) == 1
