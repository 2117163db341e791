"""The handshake with a component: its settings and its place in the topology.

The names and the shapes are Storm's: https://storm.apache.org/releases/2.6.0/Multilang-protocol.html
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple

from kstorm.topology import Config, TopologyContext
from kstorm.topology.groupings import Grouping, KeyedGrouping

_SETTINGS: Final = {
    each.name.replace("_", "."): each.name for each in fields(Config) if each.name != "own"
}
"""kstorm's settings by Storm's spelling."""


class StormSettings(NamedTuple):
    """Settings by Storm's names, sorted by their counterpart in kstorm."""

    known: dict[str, Any]
    """Settings of kstorm, by their names in `Config`."""
    own: dict[str, Any]
    """The user's own settings."""
    ignored: list[str]
    """Storm's settings without a counterpart."""


def sort_settings(given: Mapping[str, Any]) -> StormSettings:
    """Sort settings that have Storm's or kstorm's spelling."""
    found = StormSettings({}, {}, [])
    for name, value in given.items():
        if name in _SETTINGS or name in _SETTINGS.values():
            if value is not None:
                found.known[_SETTINGS.get(name, name)] = value
        elif name.startswith(("topology.", "worker.", "supervisor.", "nimbus.", "storm.")):
            found.ignored.append(name)
        else:
            found.own[name] = value
    return found


def storm_conf(
    config: Config, context: TopologyContext, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of a task by Storm's names. `given` are settings as the user wrote them."""
    known = {name: getattr(config, field) for name, field in _SETTINGS.items()}
    return {**known, **config.own, **given, "topology.name": context.topology.name}


def storm_context(context: TopologyContext) -> dict[str, Any]:
    """Return a task's place in the topology, as JSON has it: all keys are text."""
    topology, spec = context.topology, context.topology.component(context.component)
    fields_of: dict[str, dict[str, list[str]]] = {}
    groupings: dict[str, dict[str, dict[str, Any]]] = {}
    for each in spec.inputs:
        declared = topology.component(each.component).streams[each.stream]
        fields_of.setdefault(each.component, {})[each.stream] = list(declared.fields)
        groupings.setdefault(each.component, {})[each.stream] = _grouping(each.grouping)
    targets: dict[str, dict[str, Any]] = {}
    for stream in spec.streams:
        targets[stream] = {
            bolt.id: _grouping(grouping) for bolt, grouping in topology.consumers(spec.id, stream)
        }
    return {
        "taskid": context.task_id,
        "componentid": context.component,
        "task->component": {
            str(task): component
            for component in topology.components
            for task in topology.task_ids(component)
        },
        "streams": list(spec.streams),
        "stream->outputfields": {id: list(each.fields) for id, each in spec.streams.items()},
        "stream->target->grouping": targets,
        "source->stream->fields": fields_of,
        "source->stream->grouping": groupings,
    }


def _grouping(grouping: Grouping) -> dict[str, Any]:
    found: dict[str, Any] = {"type": grouping.name.upper()}
    if isinstance(grouping, KeyedGrouping):
        found["fields"] = list(grouping.fields)
    return found
