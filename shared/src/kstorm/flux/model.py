"""The keys of a topology's YAML file. The parser and the schema for editors are both derived from
this model.

The names are those of Storm's Flux in Python spelling. No section is required, since another file
may include this one.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kstorm.topology import DEFAULT_STREAM

_NAMED: Final = {"pattern": r"^[^:]+:[^:]+$|\$\{"}

Reference = Annotated[
    str,
    Meta(
        description="The id of a component; it may stand further below.", examples=["stringScheme"]
    ),
]
Settings = Annotated[
    dict[str, Any],
    Meta(
        description="Settings by the names of kstorm.topology.Config, and settings of your own by any other names."
    ),
]
Count = Annotated[int, Meta(ge=1)]
Args = Annotated[
    list[Any],
    Meta(
        description="Arguments by position. {ref: id} is a component, {reflist: [id, …]} a list of them."
    ),
]
Kwargs = Annotated[dict[str, Any], Meta(description="Arguments by name.")]
GroupingType = Literal[
    "ALL",
    "CUSTOM",
    "DIRECT",
    "FIELDS",
    "GLOBAL",
    "LOCAL_OR_SHUFFLE",
    "NONE",
    "PARTIAL_KEY",
    "SHUFFLE",
]


class _Definition(msgspec.Struct, forbid_unknown_fields=True):
    """A mapping with a fixed set of keys."""


class PropertyDef(_Definition):
    """An attribute to set on the created object: a value, a component or a list of components."""

    name: Annotated[str, Meta(description="The attribute, or what a method set_NAME sets.")]
    value: Any | UnsetType = UNSET
    ref: Reference | UnsetType = UNSET
    reflist: list[Reference] | UnsetType = UNSET


class MethodDef(_Definition):
    """A method to call after the object is created, with its arguments."""

    name: Annotated[str, Meta(description="The method, such as with_topic_selector.")]
    args: Args = []
    kwargs: Kwargs = {}


class ObjectDef(_Definition):
    """An object: its class, its constructor's arguments, and what to set and call afterwards."""

    class_: Annotated[str, Meta(description="package.module:Class", extra_json_schema=_NAMED)] = (
        msgspec.field(name="class")
    )
    factory: Annotated[
        str,
        Meta(
            description="A class method or static method that makes it, in place of the class itself."
        ),
    ] = ""
    args: Args = []
    kwargs: Kwargs = {}
    properties: Annotated[list[PropertyDef], Meta(description="Attributes to set.")] = []
    config_methods: Annotated[
        list[MethodDef], Meta(description="Methods to call, in this order.")
    ] = []


class ComponentDef(ObjectDef, kw_only=True):
    """An object with an id, which other definitions can refer to."""

    id: Annotated[str, Meta(description="Its name.", min_length=1)]


class VertexDef(ComponentDef, kw_only=True):
    """A spout or a bolt."""

    parallelism: Annotated[Count, Meta(description="Executors: processes to start with.")] = 1
    tasks: Annotated[
        Count | None,
        Meta(
            description="Tasks, fixed while the topology lives; as many as executors unless said."
        ),
    ] = None
    config: Settings = {}


class GroupingDef(_Definition):
    """The grouping, which selects the tasks of the bolt that receive a tuple."""

    type: Annotated[GroupingType, Meta(description="The kind of grouping.")]
    args: Annotated[list[str], Meta(description="Of FIELDS and PARTIAL_KEY: the fields.")] = []
    stream_id: Annotated[str, Meta(description="The stream, if it is not the default one.")] = (
        DEFAULT_STREAM
    )
    custom_class: Annotated[
        ObjectDef | None, Meta(description="Of CUSTOM: the CustomStreamGrouping.")
    ] = None


class StreamDef(_Definition, kw_only=True):
    """A bolt's subscription to a stream of a spout or another bolt."""

    name: Annotated[str, Meta(description="For who reads it.")] = ""
    from_: Annotated[str, Meta(description="The spout or bolt that emits.")] = msgspec.field(
        name="from"
    )
    to: Annotated[str, Meta(description="The bolt that subscribes.")]
    grouping: GroupingDef


class IncludeDef(_Definition):
    """Another file. Its definitions are added to those of this file."""

    file: Annotated[str, Meta(description="Its path, from the folder of this file.")]
    resource: Annotated[
        bool, Meta(description="Look for it below the folders of the Python path instead.")
    ] = False
    override: Annotated[
        bool,
        Meta(
            description="Whether what it defines replaces what has the same name here; else it is the other way round."
        ),
    ] = False


class SourceDef(_Definition):
    """Returns the topology. Parameters called `name` and `config` receive those of this file."""

    function: Annotated[str, Meta(description="package.module:function", extra_json_schema=_NAMED)]
    args: Args = []
    kwargs: Kwargs = {}


class TopologyDef(_Definition):
    """A topology: spouts, bolts and the streams between them, or a function that returns it."""

    name: Annotated[str, Meta(description="The topology's name: what its topics begin with.")] = ""
    config: Settings = {}
    includes: Annotated[list[IncludeDef], Meta(description="Further files.")] = []
    components: Annotated[
        list[ComponentDef], Meta(description="Objects that spouts, bolts and others refer to.")
    ] = []
    spouts: Annotated[list[VertexDef], Meta(description="The spouts.")] = []
    bolts: Annotated[list[VertexDef], Meta(description="The bolts.")] = []
    streams: Annotated[list[StreamDef], Meta(description="Who subscribes to whom.")] = []
    topology_source: Annotated[
        SourceDef | None,
        Meta(description="Code that wires the topology, in place of spouts, bolts and streams."),
    ] = None


KINDS: Final = (
    PropertyDef,
    MethodDef,
    ObjectDef,
    ComponentDef,
    VertexDef,
    GroupingDef,
    StreamDef,
    IncludeDef,
    SourceDef,
    TopologyDef,
)
"""Every kind of mapping that has a fixed set of keys."""
