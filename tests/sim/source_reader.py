"""Reads the simulated source topic."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kstorm.kafka.config import EARLIEST_TIME
from kstorm.kafka.ports import Broker, Partition, SourceFault

UNDECODABLE = "cannot be decoded, as told"

if TYPE_CHECKING:
    from tests.sim.kafka_source import SimulatedMessage, SourceTopic

_BROKER = Broker("simulated", 9092)


class SimulatedSourceReader:
    """A `SourceReader` that reads random amounts."""

    def __init__(self, topic: "SourceTopic") -> None:
        self._topic = topic
        self._known: dict[Partition, Broker] | None = None
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._asked: set[tuple[Partition, int]] = set()
        self._faults: list[SourceFault] = []
        self._reached: dict[Partition, int] = {}
        self._stands: set[Partition] = set()  # blocked by an undecodable batch

    def refresh(self, topic: str) -> None:
        """Done immediately."""
        self._known = dict.fromkeys(self._topic.logs, _BROKER)

    def partitions(self, topic: str) -> Mapping[Partition, Broker] | None:
        return self._known

    def offset_for(self, partition: Partition, time: int) -> int | None:
        """Answered at the second call."""
        asked = (partition, time)
        if asked not in self._asked:
            self._asked.add(asked)
            return None
        self._asked.discard(asked)
        return self._topic.start(partition) if time == EARLIEST_TIME else 0

    def assign(self, partition: Partition, offset: int) -> None:
        self.unassign(partition)
        self._positions[partition] = offset
        self._paused.discard(partition)

    def unassign(self, partition: Partition) -> None:
        self._positions.pop(partition, None)
        self._reached.pop(partition, None)
        self._stands.discard(partition)
        self._faults = [fault for fault in self._faults if fault.partition != partition]

    def pause(self, partition: Partition) -> None:
        self._paused.add(partition)

    def resume(self, partition: Partition) -> None:
        self._paused.discard(partition)

    def read(self, max_messages: int) -> Sequence["SimulatedMessage"]:
        """Return a few messages of some partition."""
        chance = self._topic.random
        found = [
            (partition, rest)
            for partition, position in self._positions.items()
            if partition not in self._paused | self._stands
            and (rest := self._rest(partition, position))
        ]
        for partition, position in self._positions.items():
            standing = partition in self._paused | self._stands
            if not standing and not any(place == partition for place, _ in found):
                self._reached[partition] = max(position, self._topic.end(partition))
        if not found:
            return ()
        partition, rest = chance.choice(found)
        read = rest[: chance.randint(1, len(rest))]
        self._positions[partition] = read[-1].at + 1
        return read

    def ends_reached(self) -> Mapping[Partition, int]:
        """Report the ends after which nothing is left to read."""
        reached, self._reached = self._reached, {}
        return reached

    def faults(self) -> Sequence[SourceFault]:
        """Report undecodable batches."""
        faults, self._faults = self._faults, []
        return faults

    def _rest(self, partition: Partition, position: int) -> list["SimulatedMessage"]:
        """Return the readable records from a position.

        If the next records are an undecodable batch, report it.
        """
        rest = [record for record in self._topic.logs[partition] if record.at >= position]
        batch = next(
            (batch for batch in self._topic.undecodable[partition] if position < batch[1]), None
        )
        if batch is None:
            return rest
        rest = [record for record in rest if record.at < batch[0]]
        if not rest:
            self._stands.add(partition)
            self._faults.append(SourceFault(UNDECODABLE, partition, undecodable=batch))
        return rest

    def end_offset(self, partition: Partition) -> int | None:
        """Always unknown."""
        return None

    def commit(self, partition: Partition, offset: int) -> None:
        """Has no effect here."""

    def close(self) -> None:
        self._positions.clear()
