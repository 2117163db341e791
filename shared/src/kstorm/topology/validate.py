"""The checks of `TopologyBuilder.build`, which reject invalid topologies before they run."""

import re

from kstorm.errors import TopologyError
from kstorm.topology.components import CustomStreamGrouping
from kstorm.topology.declarer import StreamSpec
from kstorm.topology.event_time import EventTime
from kstorm.topology.groupings import (
    CustomGrouping,
    DirectGrouping,
    FieldsGrouping,
    Grouping,
    KeyedGrouping,
)
from kstorm.topology.positioned import Positioned
from kstorm.topology.topology import ComponentSpec, Input, Topology

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MAX_TASKS = 65_535  # a ledger row stores the spout's task in 16 bits


def check_id(kind: str, name: str) -> None:
    """Raise `TopologyError` if an id cannot be part of a Kafka topic name."""
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise TopologyError(
            f"{kind} id {name!r}: use 1 to 64 letters, digits, '-' and '_', beginning with a "
            "letter or digit; it becomes part of topic names"
        )


def check_count(name: str, component: str, value: object) -> None:
    """Raise `TopologyError` if a number of executors or tasks is invalid."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TopologyError(
            f"the {name} of {component!r} is {value!r}: it must be a whole number of at least 1"
        )


def check_tasks(spec: ComponentSpec) -> None:
    """Raise `TopologyError` if there are more executors than tasks."""
    if spec.num_tasks < spec.parallelism:
        raise TopologyError(
            f"{spec.id!r} has {spec.num_tasks} tasks for a parallelism of {spec.parallelism}: "
            "executors without a task would idle; raise set_num_tasks to at least "
            f"{spec.parallelism}"
        )


def check_wiring(topology: Topology) -> None:
    """Raise `TopologyError` for the first error in the wiring."""
    if not topology.spouts:
        raise TopologyError(
            f"topology {topology.name!r} has no spout: nothing would ever be emitted; add one "
            "with set_spout"
        )
    if topology.total_tasks > _MAX_TASKS:
        raise TopologyError(
            f"topology {topology.name!r} has {topology.total_tasks} tasks: the maximum is "
            f"{_MAX_TASKS}"
        )
    for spout in topology.spouts:
        _check_event_time(spout)
    for bolt in topology.bolts:
        if not bolt.inputs:
            raise TopologyError(
                f"bolt {bolt.id!r} subscribes to nothing: give it a grouping, e.g. "
                ".shuffle_grouping(…)"
            )
        for declared in bolt.inputs:
            _check_input(topology, bolt, declared)
        refusal = bolt.component.refuses_inputs(
            {
                (each.component, each.stream): topology.components[each.component]
                .streams[each.stream]
                .fields
                for each in bolt.inputs
            }
        )
        if refusal:
            raise TopologyError(f"bolt {bolt.id!r}: {refusal}")
    _check_reachable(topology)
    _check_guarantee(topology)
    if topology.config.exactly_once:
        _check_exactly_once(topology)


def _check_event_time(spout: ComponentSpec) -> None:
    """Reject an event time that no tuple of a spout has. Its watermark would never advance."""
    time: object = spout.component.event_time()  # type: ignore[attr-defined]
    if time is None:
        return
    if not isinstance(time, EventTime):
        raise TopologyError(
            f"the event_time of the spout {spout.id!r} is {time!r:.200}: it must be an EventTime "
            "or None"
        )
    streams = spout.streams.values()
    if isinstance(time.read, str) and not any(time.read in stream.fields for stream in streams):
        fields = ", ".join(dict.fromkeys(name for stream in streams for name in stream.fields))
        raise TopologyError(
            f"the event time of the spout {spout.id!r} is in the field {time.read!r}, but its "
            f"streams have only {fields or 'no fields'}: name one of these, or a function"
        )


def _check_guarantee(topology: Topology) -> None:
    """Reject components whose guarantee differs from the topology's.

    Otherwise their process would follow one guarantee, and their tasks the other.
    """
    guarantee = topology.config.topology_processing_guarantee
    for spec in topology.components.values():
        own = spec.config.topology_processing_guarantee
        if own != guarantee:
            raise TopologyError(
                f"the configuration of {spec.id!r}: topology_processing_guarantee is {own!r}, but "
                f"the topology has {guarantee!r}: it applies to the whole topology; set it in the "
                "Config of TopologyBuilder"
            )


def _check_exactly_once(topology: Topology) -> None:
    """Reject components that cannot take part in a Kafka transaction."""
    for spout in topology.spouts:
        if not isinstance(spout.component, Positioned):
            raise TopologyError(
                f"the spout {spout.id!r} is a {type(spout.component).__name__}, but "
                "topology_processing_guarantee is 'exactly_once': its source has no position that "
                "can be committed together with the output. Write its messages to a Kafka topic "
                "first, in a separate topology with at_least_once. Then read this topic with a "
                "KafkaSpout, followed by a DistinctBolt on the message ids: docs/guides/queues.md shows "
                "both"
            )
    for spec in topology.components.values():
        refusal = spec.component.refuses_exactly_once()
        if refusal:
            raise TopologyError(f"{spec.id!r} cannot be processed exactly once: {refusal}")


def _check_input(topology: Topology, bolt: ComponentSpec, declared: Input) -> None:
    upstream = topology.components.get(declared.component)
    if upstream is None:
        raise TopologyError(
            f"bolt {bolt.id!r} subscribes to {declared.component!r}, which is not a component: "
            f"the components are {', '.join(topology.components)}"
        )
    stream = upstream.streams.get(declared.stream)
    if stream is None:
        streams = ", ".join(map(repr, upstream.streams)) or "none (see declare_output_fields)"
        raise TopologyError(
            f"bolt {bolt.id!r} subscribes to the stream {declared.stream!r} of "
            f"{declared.component!r}, which does not declare it: its streams are {streams}"
        )
    _check_grouping(bolt, declared, stream)
    _check_split(bolt, declared)


def _check_split(bolt: ComponentSpec, declared: Input) -> None:
    """Reject a grouping that sends equal keys to different tasks of a bolt."""
    keys = bolt.component.grouped_by()
    grouping = declared.grouping
    splits = grouping.separates_equals or (
        isinstance(grouping, FieldsGrouping) and not set(grouping.fields) <= set(keys)
    )
    if len(keys) and bolt.num_tasks > 1 and splits:
        raise TopologyError(
            f"bolt {bolt.id!r}, stream {declared.stream!r} of {declared.component!r}: the grouping "
            f"is {grouping}. Tuples with the same {', '.join(keys)} reach different tasks of this "
            f"bolt. Use fields_grouping by {', '.join(keys)}, or a single task"
        )


def _check_grouping(bolt: ComponentSpec, declared: Input, stream: StreamSpec) -> None:
    where = f"bolt {bolt.id!r}, stream {declared.stream!r} of {declared.component!r}"
    grouping = declared.grouping
    if not isinstance(grouping, Grouping):
        raise TopologyError(
            f"{where}: {grouping!r} is not a grouping; give an instance, e.g. ShuffleGrouping()"
        )
    if isinstance(grouping, CustomGrouping) and not isinstance(
        grouping.grouping, CustomStreamGrouping
    ):
        raise TopologyError(
            f"{where}: {grouping.grouping!r} is not a CustomStreamGrouping; give an instance of a "
            "subclass"
        )
    if isinstance(grouping, KeyedGrouping):
        if not len(grouping.fields):
            raise TopologyError(
                f"{where}: a fields grouping has no fields; name at least one, or use "
                "global_grouping"
            )
        for name in grouping.fields:
            if name not in stream.fields:
                raise TopologyError(
                    f"{where}: a fields grouping has the field {name!r}, which is not declared; "
                    f"the stream has {', '.join(stream.fields) or 'no fields'}"
                )
    if isinstance(grouping, DirectGrouping) != stream.direct:
        remedy = (
            "declare it with direct=True"
            if isinstance(grouping, DirectGrouping)
            else "it is a direct stream: use direct_grouping"
        )
        raise TopologyError(f"{where}: the grouping does not fit the stream; {remedy}")


def _check_reachable(topology: Topology) -> None:
    """Reject bolts that no spout feeds. A cycle of bolts without a spout would wait forever."""
    fed = {spout.id for spout in topology.spouts}
    while True:
        more = {
            b.id
            for b in topology.bolts
            if b.id not in fed and any(i.component in fed for i in b.inputs)
        }
        if not more:
            break
        fed |= more
    starved = [bolt.id for bolt in topology.bolts if bolt.id not in fed]
    if starved:
        raise TopologyError(
            f"no spout feeds {', '.join(map(repr, starved))}: they only subscribe to each other; "
            "connect one of them to a spout"
        )
