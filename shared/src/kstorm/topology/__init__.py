"""The user API: the topology builder, fields, groupings, settings and the classes to subclass."""

from kstorm.errors import FailedException, ReportedFailedException
from kstorm.topology.batch import TupleBatch
from kstorm.topology.builder import BoltDeclarer, SpoutDeclarer, TopologyBuilder
from kstorm.topology.collectors import (
    Anchors,
    BasicOutputCollector,
    OutputCollector,
    Placed,
    SpoutOutputCollector,
)
from kstorm.topology.component import Component
from kstorm.topology.components import (
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    Spout,
    StatefulBasicBolt,
    StatefulBolt,
)
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE, Config
from kstorm.topology.context import TopologyContext
from kstorm.topology.declarer import OutputFieldsDeclarer, StreamSpec
from kstorm.topology.distinct import DistinctBolt
from kstorm.topology.event_time import EventTime
from kstorm.topology.fields import Fields
from kstorm.topology.note import Note
from kstorm.topology.positioned import Positioned
from kstorm.topology.state import KeyValueState
from kstorm.topology.stateful import Stateful
from kstorm.topology.topology import ComponentSpec, Input, Topology
from kstorm.topology.traced import Traced
from kstorm.topology.tuple import DEFAULT_STREAM, SYSTEM_COMPONENT, TICK_STREAM, Source, Tuple

__all__ = [
    "AT_LEAST_ONCE",
    "DEFAULT_STREAM",
    "EXACTLY_ONCE",
    "SYSTEM_COMPONENT",
    "TICK_STREAM",
    "Anchors",
    "BasicBolt",
    "BasicOutputCollector",
    "Bolt",
    "BoltDeclarer",
    "Component",
    "ComponentSpec",
    "Config",
    "CustomStreamGrouping",
    "DistinctBolt",
    "EventTime",
    "FailedException",
    "Fields",
    "Input",
    "KeyValueState",
    "Note",
    "OutputCollector",
    "OutputFieldsDeclarer",
    "Placed",
    "Positioned",
    "ReportedFailedException",
    "Source",
    "Spout",
    "SpoutDeclarer",
    "SpoutOutputCollector",
    "Stateful",
    "StatefulBasicBolt",
    "StatefulBolt",
    "StreamSpec",
    "Topology",
    "TopologyBuilder",
    "TopologyContext",
    "Traced",
    "Tuple",
    "TupleBatch",
]
