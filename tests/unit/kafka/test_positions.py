"""Where an exactly-once spout starts: at its own memory, else at Kafka's position, else at ZooKeeper's offset."""

import pytest

from kstorm.errors import BrokerError, KstormError
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import UNKNOWN_BROKER, Ownership, Partition
from kstorm.kafka.positions import PositionedOffsets

P0 = Partition("in", 0)
OURS = TopologyRef("topology-1", "topology")


class Store:
    """An offset store whose locks are had at once."""

    def __init__(self, offset: int | None = None) -> None:
        self.offset = offset
        self.ownership = Ownership.HELD
        self.released: list[Partition] = []
        self.broken: KstormError | None = None

    def acquire(self, partition: Partition) -> Ownership:
        return self.ownership

    def load(self, partition: Partition) -> StoredOffset | None:
        return None if self.offset is None else StoredOffset.of(OURS, partition, self.offset, UNKNOWN_BROKER)

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        self.offset = stored.offset

    def stored_offset(self, partition: Partition) -> int | None:
        return self.offset

    def release(self, partition: Partition) -> None:
        self.released.append(partition)

    def flush(self, timeout: float) -> bool:
        return True

    def problem(self) -> KstormError | None:
        return self.broken

    def close(self) -> None:
        pass


class Reader:
    """Answers from a list; None stands for an answer that has not come."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.broken: KstormError | None = None

    def position(self, partition: Partition) -> int | None:
        return self.answers.pop(0)

    def problem(self) -> KstormError | None:
        return self.broken


def starts_at(offsets: PositionedOffsets) -> int | None:
    """The offset at which the partition goes on, once it is held."""
    assert offsets.acquire(P0) is Ownership.HELD
    stored = offsets.load(P0)
    return None if stored is None else stored.offset


@pytest.mark.parametrize(
    ("position", "stored", "start"),
    [
        pytest.param(7, 3, 7, id="Kafka's position wins"),
        pytest.param(7, None, 7, id="ZooKeeper was wiped"),
        pytest.param(-1, 3, 3, id="there is no position yet"),
        pytest.param(-1, None, None, id="a first start"),
        pytest.param(0, 3, 0, id="the position is 0"),
    ],
)
def test_where_a_partition_starts(position: int, stored: int | None, start: int | None) -> None:
    store = Store(stored)
    assert starts_at(PositionedOffsets(store, Reader(position), OURS, {})) == start
    assert store.offset == start, "ZooKeeper does not follow"


def test_nothing_is_held_before_the_position_is_known() -> None:
    """An open transaction may be our own predecessor's: its outcome is waited for."""
    offsets = PositionedOffsets(Store(3), Reader(None, None, 5), OURS, {})
    assert [offsets.acquire(P0) for _ in range(4)] == [
        Ownership.WAITING,
        Ownership.WAITING,
        Ownership.HELD,
        Ownership.HELD,
    ]


def test_without_the_lock_nothing_is_looked_up() -> None:
    store = Store()
    store.ownership = Ownership.FENCED
    assert PositionedOffsets(store, Reader(), OURS, {}).acquire(P0) is Ownership.FENCED


def test_what_was_emitted_and_is_not_committed_is_not_emitted_again() -> None:
    """A lock that is lost and had again within one process: its own memory is ahead of Kafka."""
    emitted: dict[Partition, int] = {}
    store = Store(3)
    offsets = PositionedOffsets(store, Reader(5), OURS, emitted)
    assert starts_at(offsets) == 5
    emitted[P0] = 9
    offsets.release(P0)
    assert starts_at(offsets) == 9
    assert store.offset == 5, "stored before it was committed"


def test_a_partition_that_starts_elsewhere_starts_where_that_is_stored() -> None:
    """As when the broker no longer has the position: the new start is saved first, and then found."""
    offsets = PositionedOffsets(Store(3), Reader(5), OURS, {})
    assert starts_at(offsets) == 5
    offsets.save(P0, StoredOffset.of(OURS, P0, 40, UNKNOWN_BROKER))
    assert starts_at(offsets) == 40
    assert offsets.stored_offset(P0) == 40


def test_problems_of_both_are_shown() -> None:
    store, reader = Store(), Reader()
    offsets = PositionedOffsets(store, reader, OURS, {})
    assert offsets.problem() is None
    reader.broken = BrokerError("no answer")
    assert str(offsets.problem()) == "no answer"
    store.broken = BrokerError("no ZooKeeper")
    assert str(offsets.problem()) == "no ZooKeeper"
