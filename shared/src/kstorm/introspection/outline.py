"""The outline of a topology as JSON: the facts that a program needs to read its topics without its
code.

It contains names, numbers, and the sources of spouts. Each process serves the outline at
`/topology`, and the file of a local run contains it. Reader and writer may have different versions:
unknown fields are ignored, and missing ones have their defaults.
"""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kstorm.errors import AbsentError, ConfigError, TopologyError
from kstorm.topology.names import Names

if TYPE_CHECKING:
    from kstorm.kafka.config import SpoutConfig


class RetryPolicy(NamedTuple):
    """Retry policy of `ExponentialBackoffRetryManager`."""

    initial_ms: float
    multiplier: float
    most_ms: float
    limit: int
    """-1: unlimited."""

    def delay(self, failures: int) -> float:
        """Return milliseconds from the last of `failures` failures to the next attempt."""
        try:
            return min(self.initial_ms * self.multiplier ** (failures - 1), self.most_ms)
        except OverflowError:
            return self.most_ms


class SpoutSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """Source of a KafkaSpout, without credentials."""

    topic: str
    zk_root: str
    id: str
    wildcard: bool = False
    """True if `topic` is a regular expression."""
    zk_connect: str = ""
    """ZooKeeper that stores the offsets. Empty means the services' own."""
    bootstrap: str = ""
    """Kafka cluster of the source topic. Empty means the services' own."""
    retries: RetryPolicy | None = None
    """None if the spout has a custom retry manager, or no retries."""

    def path_of(self, topic: str) -> str:
        """Return the ZooKeeper node that contains a topic's partitions."""
        path = f"{self.zk_root}/{self.id}"
        return f"{path}/{topic}" if self.wildcard else path

    def reads(self, topic: str) -> bool:
        """Return True if the spout reads a topic of this name."""
        from kstorm.kafka.hosts import topics_matching

        return bool(topics_matching(self.topic, [topic])) if self.wildcard else self.topic == topic

    @property
    def config(self) -> "SpoutConfig":
        """The spout's configuration with the fields that the outline contains."""
        # Programs that only read outlines do not load the code of spouts.
        from kstorm.kafka.config import SpoutConfig
        from kstorm.kafka.hosts import KafkaHosts

        return SpoutConfig(
            KafkaHosts(self.bootstrap or None),
            self.topic,
            self.zk_root,
            self.id,
            kafka_topic_wildcard_match=self.wildcard,
            zk_servers=self.zk_connect.split(",") if self.zk_connect else None,
        )


class OutlineComponent(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    kind: str
    """`spout` or `bolt`."""
    num_tasks: int
    first_task: int
    """Topology-wide id of the first task."""
    timeout_secs: float | None = None
    """Timeout of a spout's messages. None means no timeout."""
    reading: SpoutSource | None = None
    writing: str = ""
    """Topic that a KafkaBolt writes, if it is the same for all tuples."""

    @property
    def timeout_ms(self) -> float:
        """Infinite without a timeout."""
        return inf if self.timeout_secs is None else self.timeout_secs * 1000


class OutlineEdge(msgspec.Struct, frozen=True, omit_defaults=True):
    """Subscription of a component to a stream."""

    source: str
    stream: str
    target: str
    grouping: str = ""
    """Description such as `fields word`."""
    grouped_by: Sequence[str] = ()
    """Fields of a fields grouping."""


class Outline(Names, msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    components: Sequence[OutlineComponent] = ()
    edges: Sequence[OutlineEdge] = ()
    acker_tasks: int = 0
    exactly_once: bool = False

    @property
    def spouts(self) -> list[OutlineComponent]:
        """Spouts in the order of their declaration."""
        return [each for each in self.components if each.kind == "spout"]

    @property
    def bolts(self) -> list[OutlineComponent]:
        """Bolts in the order of their declaration."""
        return [each for each in self.components if each.kind == "bolt"]

    @property
    def readings(self) -> dict[str, SpoutSource]:
        """Kafka sources by spout."""
        return {each.id: each.reading for each in self.spouts if each.reading is not None}

    def component(self, id: str) -> OutlineComponent:
        """Return a component. Raises `TopologyError` with the known ones if the id is unknown."""
        found = next((each for each in self.components if each.id == id), None)
        if found is None:
            known = ", ".join(each.id for each in self.components)
            raise TopologyError(f"topology {self.name!r} has no component {id!r}: it has {known}")
        return found

    def task_ids(self, component: str) -> range:
        """Return a component's topology-wide task ids by task index."""
        found = self.component(component)
        return range(found.first_task, found.first_task + found.num_tasks)

    def name_of(self, task: int) -> str:
        """Return the task's name as Storm shows it: `split:5`."""
        found = next((each.id for each in self.components if task in self.task_ids(each.id)), None)
        return f"task {task}" if found is None else f"{found}:{task}"

    def check_reader(self, component: str | None) -> None:
        """Raise `AbsentError` if the component is not a spout that reads Kafka.

        None means any component. In this case at least one must read Kafka.
        """
        readings = self.readings
        if not readings or (component and component not in readings):
            said = (
                f"{component!r} is not a spout that reads Kafka"
                if component
                else "no spout reads Kafka"
            )
            names = f"; spouts that do: {', '.join(readings)}" if readings else ""
            raise AbsentError(f"the topology {self.name!r}: {said}{names}")

    def reader_of(self, topic: str, component: str | None = None) -> str:
        """Return the spout that reads a topic.

        Raises `AbsentError` if no spout reads it. Raises `ConfigError` if several spouts read it
        and no component is given.
        """
        self.check_reader(component)
        readings = self.readings
        found = [
            id
            for id, reading in readings.items()
            if component in (None, id) and reading.reads(topic)
        ]
        if len(found) > 1:
            raise ConfigError(
                f"several spouts read {topic!r}: give --component; they are {', '.join(found)}"
            )
        if not found:
            topics = ", ".join(f"{reading.topic!r} ({id})" for id, reading in readings.items())
            raise AbsentError(
                f"no spout of {self.name!r} reads the topic {topic!r}; they read {topics}"
            )
        return found[0]


def parse_outline(page: object) -> Outline | None:
    """Parse an outline from decoded JSON. Return None if it is not one."""
    try:
        return msgspec.convert(page, Outline)
    except msgspec.ValidationError:
        return None
