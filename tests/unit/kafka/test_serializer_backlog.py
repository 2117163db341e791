"""What the bolt holds while its serializer cannot answer: how much, for how long, and in which order it is written."""

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
    """A serializer that has an answer while its registry is there."""

    there = False

    def serialize(self, topic: str, value: object) -> bytes | None:
        if not Registry.there:
            raise NotYetError("the registry does not answer")
        return str(value).encode()


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the registry be away, and the bolt be quick to try again."""
    monkeypatch.setattr(Registry, "there", False)
    monkeypatch.setattr("kstorm.kafka.bolt._TRY_AGAIN_SECS", 0.001)


def bolt() -> KafkaBolt:
    return KafkaBolt().with_topic_selector("t").with_value_serializer(Registry())


def impatient(world: "World", made: KafkaBolt) -> Outcomes:
    """Prepares a bolt whose tuples' trees time out soon."""
    outcomes = Outcomes()
    config = Config(topology_message_timeout_secs=TIMEOUT_SECS)
    made.prepare(config, context(made, {KAFKA: world.ports}), outcomes)
    return outcomes


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_replay_is_not_held_beside_its_former_self(world: "World") -> None:
    """What waited for as long as its tree may take fails, and only its replay is held. A hundred messages that are replayed
    twelve times are never more than a hundred."""
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
    """Sync: the next tuple has its turn then."""
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
    """Once the store is full `execute` does not end, so the input stays in Kafka; all is written in order in the end."""
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


async def test_room_comes_also_by_those_that_waited_in_vain(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """So whoever waits for room waits no longer than the message timeout, however long the registry is away."""
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
    """It is written again one by one, when nobody executes who could wait for room: it is held, whatever there is."""
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
    """Whoever has the task next executes what it held: it must not be written by both."""
    made = bolt()
    prepared(world, made)
    made.execute(tup())
    await made.cleanup()
    monkeypatch.setattr(Registry, "there", True)
    for _ in range(5):
        await asyncio.sleep(0.002)
    assert (world.writer.records, made.metrics()["held"]) == ([], 0)


def test_bytes_are_counted_in_and_out() -> None:
    """Also those of values that are no text."""
    held = SerializerBacklog(1.0, lambda: 0.0)
    held.add("t", tup(message={"word": "x" * (16 << 20)}))
    assert held.full
    held.add("t", tup())
    held.take_first()
    assert not held.full
    assert len(held) == 1
