"""Records that a simulated process has sent and the broker has not received. They are lost if the
process dies."""

from collections import deque

from kstorm.core.engine import Unit
from kstorm.core.engine.effects import Send
from kstorm.testing.logs import TopicPartition
from kstorm.testing.world import SimulatedWorld


class InFlightRecords:
    """Records in transit, by partition. They arrive one by one, in any order across partitions."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._queues: dict[TopicPartition, deque[tuple[bytes, Unit]]] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    @property
    def can_arrive(self) -> bool:
        """True if a record could arrive now."""
        stalled = self._world.logs.stalled
        return bool(self._queues) and not (stalled and stalled.issuperset(self._queues))

    def add(self, send: Send) -> None:
        for out in send.records:
            self._queues.setdefault((out.topic, out.partition), deque()).append(
                (out.value, send.unit)
            )

    def deliver_one(self) -> None:
        """Deliver one record, perhaps twice or before its predecessor."""
        world = self._world
        place = world.random.choice(
            [place for place in self._queues if place not in world.logs.stalled]
        )
        queue = self._queues[place]
        if world.reorder and len(queue) > 1 and world.random.random() < world.reorder:
            queue[0], queue[1] = queue[1], queue[0]
            world.count("reordered record")
        value, unit = queue.popleft()
        if not queue:
            del self._queues[place]
        world.logs.append(place, value)
        if world.duplicate and world.random.random() < world.duplicate:
            world.logs.append(place, value)
            world.count("duplicate record")
        unit.delivered()
