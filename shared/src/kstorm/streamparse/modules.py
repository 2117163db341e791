"""The modules of streamparse and pystorm that kstorm stands in for, with their names."""

from types import ModuleType
from typing import Any, Final

from kstorm import streamparse
from kstorm.streamparse import component, topology

_PYSTORM: Final = (
    *("BatchingBolt", "Bolt", "Component", "ReliableSpout", "Spout", "TicklessBatchingBolt"),
    "Tuple",
)
_BOLTS: Final = ("BatchingBolt", "Bolt", "JavaBolt", "ShellBolt", "TicklessBatchingBolt")
_SPOUTS: Final = ("JavaSpout", "ReliableSpout", "ShellSpout", "Spout")
_STREAMS: Final = ("Grouping", "Stream")
_STORM: Final = (*_BOLTS, *_SPOUTS, "Component", "StormHandler", "Tuple")


def _from(module: ModuleType, *names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names}


class StormWentAwayError(Exception):
    """pystorm's error for a parent that has ended. kstorm does not raise it."""


MODULES: Final[dict[str, dict[str, Any]]] = {
    "streamparse": _from(streamparse, *_STORM, *_STREAMS, "Topology"),
    "streamparse.bolt": _from(streamparse, *_BOLTS),
    "streamparse.spout": _from(streamparse, *_SPOUTS),
    "streamparse.component": _from(component, "Component", "StormHandler"),
    "streamparse.storm": _from(streamparse, *_STORM),
    "streamparse.storm.bolt": _from(streamparse, *_BOLTS),
    "streamparse.storm.spout": _from(streamparse, *_SPOUTS),
    "streamparse.storm.component": _from(component, "Component", "StormHandler"),
    "streamparse.dsl": _from(streamparse, *_STREAMS, "Topology"),
    "streamparse.dsl.stream": _from(streamparse, *_STREAMS),
    "streamparse.dsl.component": _from(streamparse, "ComponentSpec"),
    "streamparse.dsl.topology": _from(topology, "Topology", "TopologyType"),
    "pystorm": _from(streamparse, *_PYSTORM),
    "pystorm.bolt": _from(streamparse, "BatchingBolt", "Bolt", "TicklessBatchingBolt", "Tuple"),
    "pystorm.spout": _from(streamparse, "ReliableSpout", "Spout"),
    "pystorm.component": _from(component, "Component", "StormHandler", "Tuple"),
    "pystorm.exceptions": {"StormWentAwayError": StormWentAwayError},
}
