"""A topology with access to its topics, to read the traces of messages."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstorm.errors import ConfigError
from kstorm.introspection.outline import Outline
from kstorm.operations.offsets.spout_offsets import SpoutOffsets
from kstorm.operations.traces.diagnosis import Diagnosis
from kstorm.operations.traces.topic_log import TopicLog
from kstorm.operations.traces.tracer import Tracer
from kstorm.operations.trees.facts import MessageId
from kstorm.runtime.base.settings import Settings

if TYPE_CHECKING:
    from kstorm.kafka import SpoutConfig
    from kstorm.topology import Topology


def parse_message(text: str) -> MessageId:
    """Parse a message's coordinates. Raises `ConfigError` with the expected form."""
    found = re.fullmatch(r"([^/\s]+)/([0-9]{1,9})/([0-9]{1,18})", text)
    if not found:
        raise ConfigError(
            f"{text}: give a message as TOPIC/PARTITION/OFFSET, such as sentences/3/10482"
        )
    return MessageId(found[1], int(found[2]), int(found[3]))


@dataclass(frozen=True, slots=True)
class TopologyTraces:
    """A topology with access to its topics."""

    topology: Outline
    settings: Settings
    log: TopicLog
    tracer: Tracer
    code: "Topology | None" = None
    """The outline of a run is sufficient. The code also has hosts that the outline leaves out."""

    def readings(self, component: str | None = None) -> dict[str, SpoutOffsets]:
        """Return the Kafka sources by spout, or only that of `component`.

        Raises `AbsentError` if there are none.
        """
        self.topology.check_reader(component)
        return {
            name: self._reading(name)
            for name in self.topology.readings
            if component in (None, name)
        }

    def reading_of(self, topic: str, component: str | None) -> tuple[str, SpoutOffsets]:
        """Return the spout that reads a topic, and its source.

        Raises `AbsentError` if no spout reads it. Raises `ConfigError` if several spouts read it
        and no component is given.
        """
        spout = self.topology.reader_of(topic, component)
        return spout, self._reading(spout)

    def asking(self, spout: str, reading: SpoutOffsets) -> Diagnosis:
        """Return a context manager that finds out why messages of the spout are unfinished."""
        return Diagnosis(self.topology, spout, reading, self.log)

    def _reading(self, name: str) -> SpoutOffsets:
        return offsets_of(
            self.topology, name, self.settings, config_of(self.topology, self.code, name)
        )


def config_of(topology: Outline, code: "Topology | None", spout: str) -> "SpoutConfig":
    """Return a spout's configuration, from the code if it is available."""
    if code is None:
        return topology.readings[spout].config
    from kstorm.kafka import KafkaSpout

    found = code.component(spout).component
    assert isinstance(found, KafkaSpout)
    return found.spout_config


def offsets_of(
    topology: Outline, spout: str, settings: Settings, config: "SpoutConfig"
) -> SpoutOffsets:
    """Return a spout's source."""
    from kstorm.kafka.offsets import TopologyRef

    ref = TopologyRef(settings.topology_id or topology.name, topology.name)
    return SpoutOffsets(
        config, settings, ref, topology.group(spout) if topology.exactly_once else ""
    )
