"""The start of an exactly-once spout: its own memory, then Kafka's position, then ZooKeeper's offset.

An offset that another program stored in ZooKeeper precedes them all.
"""

import pytest
from msgspec.structs import replace

from kstorm.errors import BrokerError, KstormError
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import UNKNOWN_BROKER, Ownership, Partition
from kstorm.kafka.positioned_offsets import PositionedOffsets

P0 = Partition("in", 0)
OURS = TopologyRef("topology-1", "topology")
GROUP = "topology.spout"


class Store:
    """An offset store that grants locks and stores offsets at once, unless it is `away`."""

    def __init__(self, offset: int | None = None, group: str = GROUP) -> None:
        self.offset, self.group = offset, group
        self.away = False
        self.ownership = Ownership.HELD
        self.released: list[Partition] = []
        self.broken: KstormError | None = None

    def acquire(self, partition: Partition) -> Ownership:
        return self.ownership

    def load(self, partition: Partition) -> StoredOffset | None:
        if self.offset is None:
            return None
        return replace(
            StoredOffset.of(OURS, partition, self.offset, UNKNOWN_BROKER), group=self.group
        )

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        if not self.away:
            self.offset, self.group = stored.offset, stored.group

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
    """Returns positions from a list. None stands for a pending answer."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.broken: KstormError | None = None

    def position(self, partition: Partition) -> int | None:
        return self.answers.pop(0)

    def problem(self) -> KstormError | None:
        return self.broken

    def close(self) -> None:
        pass


def positioned(
    store: Store,
    reader: Reader,
    emitted: dict[Partition, int] | None = None,
    committed: dict[Partition, int] | None = None,
) -> PositionedOffsets:
    """Builds the offsets of the spout with the group `GROUP`."""
    memory = {} if emitted is None else emitted
    return PositionedOffsets(
        store, reader, OURS, GROUP, memory, {} if committed is None else committed
    )


def starts_at(offsets: PositionedOffsets) -> int | None:
    """Returns the offset at which the held partition resumes."""
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
def test_start_of_a_partition(position: int, stored: int | None, start: int | None) -> None:
    store = Store(stored)
    assert starts_at(positioned(store, Reader(position))) == start
    assert store.offset == stored, "what is between is in a finished range before ZooKeeper follows"


def test_nothing_is_held_before_the_position_is_known() -> None:
    """An open transaction may belong to the previous process, so its outcome decides."""
    offsets = positioned(Store(3), Reader(None, None, 5))
    assert [offsets.acquire(P0) for _ in range(4)] == [
        Ownership.WAITING,
        Ownership.WAITING,
        Ownership.HELD,
        Ownership.HELD,
    ]


def test_without_the_lock_nothing_is_looked_up() -> None:
    store = Store()
    store.ownership = Ownership.FENCED
    assert positioned(store, Reader()).acquire(P0) is Ownership.FENCED


def test_own_memory_is_ahead_of_kafka() -> None:
    """A process may lose and regain a lock. Then its own memory is ahead of Kafka."""
    emitted: dict[Partition, int] = {}
    store = Store(3)
    offsets = positioned(store, Reader(5), emitted)
    assert starts_at(offsets) == 5
    emitted[P0] = 9
    offsets.release(P0)
    assert starts_at(offsets) == 9
    assert store.offset == 3, "stored before it was committed"


def test_saved_start_overrides_the_position() -> None:
    """This happens if the broker lost the position. The new start is saved first, and then read."""
    offsets = positioned(Store(3), Reader(5))
    assert starts_at(offsets) == 5
    offsets.save(P0, StoredOffset.of(OURS, P0, 40, UNKNOWN_BROKER))
    assert starts_at(offsets) == 40
    assert offsets.stored_offset(P0) == 40


def test_offset_stored_by_another_program_overrides_the_position() -> None:
    """An at-least-once spout or `kstorm offsets` may have stored it.

    The position moves there before it counts, so a crash in between starts the move again. The
    partition is not held before, so nothing is emitted.
    """
    emitted: dict[Partition, int] = {}
    committed: dict[Partition, int] = {}
    store = Store(3, group="")
    offsets = positioned(store, Reader(9), emitted, committed)
    assert offsets.acquire(P0) is Ownership.WAITING
    assert emitted == {P0: 3}, "the next epoch has the position"
    assert offsets.acquire(P0) is Ownership.WAITING
    assert store.group == "", "a crash here must start at 3 and not at 9"
    committed[P0] = 3
    store.away = True
    assert [offsets.acquire(P0) for _ in range(2)] == [Ownership.WAITING] * 2, (
        "a crash here must start at 3 as well"
    )
    store.away, store.group = False, GROUP
    assert starts_at(offsets) == 3


def test_first_start_marks_the_position_as_valid_before_it_emits() -> None:
    """Otherwise the first commit would look older than the start offset."""
    store = Store(3, group="")
    offsets = positioned(store, Reader(-1))
    assert offsets.acquire(P0) is Ownership.WAITING
    assert (store.offset, store.group) == (3, GROUP)
    assert starts_at(offsets) == 3


def test_offset_stored_while_the_lock_was_lost_overrides_the_own_memory() -> None:
    emitted: dict[Partition, int] = {}
    committed: dict[Partition, int] = {}
    store = Store(3)
    offsets = positioned(store, Reader(5), emitted, committed)
    assert starts_at(offsets) == 5
    emitted[P0] = committed[P0] = 9
    offsets.release(P0)
    store.offset, store.group = 2, ""
    assert offsets.acquire(P0) is Ownership.WAITING
    committed |= emitted
    assert emitted == {P0: 2}
    assert offsets.acquire(P0) is Ownership.WAITING
    assert starts_at(offsets) == 2


def test_stored_offset_marks_the_position_as_valid() -> None:
    """The spout sees the same offset as any other spout."""
    store = Store(None)
    offsets = positioned(store, Reader(-1))
    assert starts_at(offsets) is None
    offsets.save(P0, StoredOffset.of(OURS, P0, 40, UNKNOWN_BROKER))
    assert store.group == GROUP
    stored = offsets.load(P0)
    assert stored is not None
    assert (stored.offset, stored.group) == (40, "")


def test_problems_of_both_are_shown() -> None:
    store, reader = Store(), Reader()
    offsets = positioned(store, reader)
    assert offsets.problem() is None
    reader.broken = BrokerError("no answer")
    assert str(offsets.problem()) == "no answer"
    store.broken = BrokerError("no ZooKeeper")
    assert str(offsets.problem()) == "no ZooKeeper"
