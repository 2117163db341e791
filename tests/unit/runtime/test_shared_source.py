"""The spout tasks of a process share a reader, and each one gets only its own messages."""

from typing import Any

import pytest

from kstorm.kafka import KafkaHosts, SchemeAsMultiScheme, SpoutConfig, StringScheme
from kstorm.kafka.ports import Partition, SourceFault, SourceReader
from kstorm.runtime.kafka import shared_source
from kstorm.runtime.kafka.shared_source import SharedSources
from tests.source_contract import SourceContract
from tests.unit.kafka.conftest import TOPIC, FakeSource
from tests.unit.kafka.test_fake_source_contract import FakeLog

ONE, TWO = Partition(TOPIC, 0), Partition(TOPIC, 1)


def config(**settings: Any) -> SpoutConfig:
    """Builds a config with its own scheme, like each task's copy."""
    scheme = SchemeAsMultiScheme(StringScheme())
    return SpoutConfig(KafkaHosts(), TOPIC, "/root", "reader", scheme=scheme, **settings)


class World:
    """Two partitions, and their open readers."""

    def __init__(self) -> None:
        self.opened: list[FakeSource] = []
        self.sources = SharedSources(self._open)

    def _open(self, config: SpoutConfig) -> FakeSource:
        self.opened.append(FakeSource())
        self.opened[-1].logs = {ONE: [], TWO: []}
        return self.opened[-1]

    def two(self) -> tuple[SourceReader, SourceReader, FakeSource]:
        """Return the readers of two tasks with one partition each, and the shared source."""
        one, two = self.sources.lend(config()), self.sources.lend(config())
        one.assign(ONE, 0)
        two.assign(TWO, 0)
        return one, two, self.opened[0]


@pytest.fixture
def world() -> World:
    return World()


def offsets(reader: SourceReader, most: int = 500) -> list[tuple[int, int]]:
    return [(message.partition(), message.offset()) for message in reader.read(most)]


class TestLentSource(SourceContract):
    """See `SourceContract`."""

    @pytest.fixture
    def log(self, world: World) -> FakeLog:
        reader: Any = world.sources.lend(config())
        shared = FakeLog(world.opened[0])
        shared.reader = _Both(reader, world.opened[0])  # type: ignore[assignment]
        return shared


class _Both:
    """The task's reader, with the log of the fake source."""

    def __init__(self, reader: Any, fake: FakeSource) -> None:
        self._reader, self._fake = reader, fake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader if hasattr(self._reader, name) else self._fake, name)


def test_tasks_with_equal_settings_share_a_reader(world: World) -> None:
    one, two, shared = world.two()
    other = world.sources.lend(config(fetch_max_wait=10))
    assert len(world.opened) == 2
    one.close()
    one.close()
    assert not shared.closed
    two.close()
    assert shared.closed
    world.sources.lend(config())
    assert len(world.opened) == 3
    other.close()


def test_each_task_gets_its_own_messages(world: World) -> None:
    """If one task reads, the other one's messages are passed on."""
    one, two, shared = world.two()
    shared.produce(0, 0, 1, 2)
    shared.produce(1, 0, 1)
    assert offsets(one) == [(0, 0), (0, 1), (0, 2)]
    shared.logs[TWO].clear()
    assert offsets(two) == [(1, 0), (1, 1)]
    assert offsets(one) == offsets(two) == []


def test_end_waits_for_the_messages_before_it(world: World) -> None:
    one, two, shared = world.two()
    shared.produce(1, 0, 1)
    assert offsets(one) == offsets(one) == []
    assert two.ends_reached() == {}
    assert offsets(two) == [(1, 0), (1, 1)]
    assert one.ends_reached() == {ONE: 0}
    assert two.ends_reached() == {TWO: 2}
    assert one.ends_reached() == two.ends_reached() == {}


def test_fault_waits_for_the_messages_before_it(world: World) -> None:
    """Otherwise the spout would continue after an undecodable batch without these messages."""
    one, two, shared = world.two()
    shared.produce(1, 0, 1)
    shared.produce_undecodable(1, 3)
    assert offsets(one) == offsets(one) == []
    assert not one.faults()
    assert not two.faults()
    assert offsets(two) == [(1, 0), (1, 1)]
    assert [fault.undecodable for fault in two.faults()] == [(2, 5)]
    assert not two.faults()


def test_fault_of_the_cluster_is_for_all_tasks(world: World) -> None:
    one, two, shared = world.two()
    shared.waiting_faults.append(SourceFault("away"))
    assert [fault.reason for fault in one.faults()] == ["away"]
    assert [fault.reason for fault in two.faults()] == ["away"]
    assert not one.faults()


def test_failed_look_up_is_for_the_task_that_asked(world: World) -> None:
    one, two, shared = world.two()
    place = Partition(TOPIC, 7)
    two.offset_for(place, -2)
    shared.waiting_faults.append(SourceFault("no offset", place))
    assert not one.faults()
    assert [fault.reason for fault in two.faults()] == ["no offset"]


def test_partition_is_paused_while_its_task_does_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fetched messages are kept, and none is missing afterwards."""
    monkeypatch.setattr(shared_source, "_MOST_MESSAGES", 10)
    one, two, shared = world.two()
    shared.produce(1, *range(30))
    while not shared.paused and shared.positions[TWO] < 30:
        assert offsets(one) == []
    assert shared.paused == {TWO}
    shared.produce(0, 0)
    assert offsets(one) == [(0, 0)]
    found: list[tuple[int, int]] = []
    while more := offsets(two, 4):
        found += more
    assert found == [(1, offset) for offset in range(30)]
    assert not shared.paused


def test_partition_of_large_messages_is_paused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_source, "_MOST_BYTES", 100)
    one, two, shared = world.two()
    shared.produce(1, 0, 1, body=b"x" * 60)
    assert offsets(one) == []
    assert shared.paused == {TWO}
    assert offsets(two) == [(1, 0), (1, 1)]
    assert not shared.paused


def test_task_without_partitions_fetches_nothing_for_others(world: World) -> None:
    """It does not read its own messages, so it must not fill the others' buffers."""
    _one, _two, shared = world.two()
    shared.produce(0, 0)
    idle = world.sources.lend(config())
    assert offsets(idle) == []
    assert shared.positions[ONE] == 0


def test_partition_that_another_task_took_over_stays_assigned(world: World) -> None:
    """A task releases a partition only when it learns of the loss."""
    one, two, shared = world.two()
    two.assign(ONE, 0)
    one.unassign(ONE)
    one.close()
    shared.produce(0, 0)
    assert offsets(two) == [(0, 0)]


def test_messages_from_before_an_assignment_are_dropped(world: World) -> None:
    one, two, shared = world.two()
    shared.produce(1, 0, 1, 2)
    assert offsets(one) == []
    two.assign(TWO, 1)
    assert offsets(two) == [(1, 1), (1, 2)]


def test_close_stops_reading_the_task_s_partitions(world: World) -> None:
    one, _two, shared = world.two()
    one.close()
    assert shared.positions.keys() == {TWO}


def test_messages_are_fetched_for_tasks_that_rest(world: World) -> None:
    one, two, shared = world.two()
    assert not world.sources.fetch()
    shared.produce(1, 0)
    assert world.sources.fetch()
    shared.logs[TWO].clear()
    assert offsets(two) == [(1, 0)]
    one.close()
    two.close()
    assert not world.sources.fetch()
