"""What it takes to read the topics of a topology without having its code: names, numbers and what its spouts read, as JSON.

Each process tells it at `/topology`, and the file of a run on this machine has it. Who reads it may be older or newer than who
wrote it: fields that are not known are passed over, and those that lack have their defaults.
"""

from collections.abc import Sequence
from math import inf

import msgspec

from kstorm.errors import AbsentError, ConfigError, TopologyError
from kstorm.inspect.facts import Retries
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.hosts import KafkaHosts, topics_matching
from kstorm.topology.names import Names


class SpoutReading(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a KafkaSpout reads. Nothing that a login takes is among it."""

    topic: str
    zk_root: str
    id: str
    wildcard: bool = False
    """Whether `topic` is a regular expression."""
    zk_connect: str = ""
    """The ZooKeeper that has its offsets; empty: the services' own."""
    bootstrap: str = ""
    """The Kafka that has its topic; empty: the services' own."""
    retries: Retries | None = None
    """None: the user's own policy, or none."""

    def path_of(self, topic: str) -> str:
        """The node in ZooKeeper under which a topic's partitions are."""
        path = f"{self.zk_root}/{self.id}"
        return f"{path}/{topic}" if self.wildcard else path

    def reads(self, topic: str) -> bool:
        """Whether it reads a topic of that name."""
        return bool(topics_matching(self.topic, [topic])) if self.wildcard else self.topic == topic

    @property
    def config(self) -> SpoutConfig:
        """As much of it as is known."""
        return SpoutConfig(
            KafkaHosts(self.bootstrap or None),
            self.topic,
            self.zk_root,
            self.id,
            kafka_topic_wildcard_match=self.wildcard,
            zk_servers=self.zk_connect.split(",") if self.zk_connect else None,
        )


class OutlineComponent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A spout or a bolt."""

    id: str
    kind: str
    """`spout` or `bolt`."""
    num_tasks: int
    first_task: int
    """Topology-wide id of its first task."""
    timeout_secs: float | None = None
    """Of a spout's messages; None if they have none."""
    reading: SpoutReading | None = None

    @property
    def timeout_ms(self) -> float:
        """Infinite if there is none."""
        return inf if self.timeout_secs is None else self.timeout_secs * 1000


class OutlineEdge(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who reads what of whom."""

    source: str
    stream: str
    target: str
    grouping: str = ""
    """In words, `fields word`."""
    grouped_by: Sequence[str] = ()
    """The fields of a fields grouping."""


class Outline(Names, msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a topology."""

    name: str
    components: Sequence[OutlineComponent] = ()
    edges: Sequence[OutlineEdge] = ()
    acker_tasks: int = 0
    exactly_once: bool = False

    @property
    def spouts(self) -> list[OutlineComponent]:
        """The spouts, in the order of their declaration."""
        return [each for each in self.components if each.kind == "spout"]

    @property
    def bolts(self) -> list[OutlineComponent]:
        """The bolts, in the order of their declaration."""
        return [each for each in self.components if each.kind == "bolt"]

    @property
    def readings(self) -> dict[str, SpoutReading]:
        """By spout, what it reads of Kafka."""
        return {each.id: each.reading for each in self.spouts if each.reading is not None}

    def component(self, id: str) -> OutlineComponent:
        """A component by id; raises `TopologyError` naming the known ones."""
        found = next((each for each in self.components if each.id == id), None)
        if found is None:
            known = ", ".join(each.id for each in self.components)
            raise TopologyError(f"topology {self.name!r} has no component {id!r}: it has {known}")
        return found

    def task_ids(self, component: str) -> range:
        """The topology-wide task ids of a component, by task index."""
        found = self.component(component)
        return range(found.first_task, found.first_task + found.num_tasks)

    def name_of(self, task: int) -> str:
        """`split:5`, as Storm shows it."""
        found = next((each.id for each in self.components if task in self.task_ids(each.id)), None)
        return f"task {task}" if found is None else f"{found}:{task}"

    def check_reader(self, component: str | None) -> None:
        """Raises `AbsentError` if that is no spout that reads Kafka; None: if there is none."""
        readings = self.readings
        if not readings or (component and component not in readings):
            said = (
                f"{component!r} is no spout that reads Kafka"
                if component
                else "no spout reads Kafka"
            )
            names = f"; those that do: {', '.join(readings)}" if readings else ""
            raise AbsentError(f"the topology {self.name!r}: {said}{names}")

    def reader_of(self, topic: str, component: str | None = None) -> str:
        """The spout that reads a topic. Raises `ConfigError` if none does, or several do and none is named."""
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
    """Of a page that was read as JSON; None if it has no outline."""
    try:
        return msgspec.convert(page, Outline)
    except msgspec.ValidationError:
        return None
