"""The keys of a topology's YAML file. The parser and the schema for editors are both derived from
this model.

The names are those of Storm's Flux in Python spelling. No section is required, because a file may
be included by another one.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kstorm.topology import DEFAULT_STREAM
from kstorm.topology.groupings import GROUPINGS, ShuffleGrouping

_NAMED: Final = {"pattern": r"^[^:]+:[^:]+$|\$\{"}

Reference = Annotated[
    str,
    Meta(
        description="The id of a component, which may be defined further down.",
        examples=["stringScheme"],
    ),
]
Settings = Annotated[
    dict[str, Any],
    Meta(
        description="Settings of kstorm.topology.Config by name, and your own settings under "
        "other names."
    ),
]
Count = Annotated[int, Meta(ge=1)]
Args = Annotated[
    list[Any],
    Meta(
        description="Positional arguments. {ref: id} refers to a component, {reflist: [id, …]} to a "
        "list of components."
    ),
]
Kwargs = Annotated[dict[str, Any], Meta(description="Keyword arguments.")]
GROUPING_TYPES: Final = {"LOCAL_OR_SHUFFLE": ShuffleGrouping} | {
    grouping.name.upper(): grouping for grouping in GROUPINGS
}
if TYPE_CHECKING:
    GroupingType = str
else:
    GroupingType = Literal[tuple(sorted(GROUPING_TYPES))]


class _Definition(msgspec.Struct, forbid_unknown_fields=True):
    """A mapping with a fixed set of keys."""


class PropertyDef(_Definition):
    """An attribute to set on the created object: a value, a component or a list of components."""

    name: Annotated[
        str, Meta(description="The name of an attribute, or NAME of a method set_NAME.")
    ]
    value: Any | UnsetType = UNSET
    ref: Reference | UnsetType = UNSET
    reflist: list[Reference] | UnsetType = UNSET


class MethodDef(_Definition):
    """A method to call after the object is created, with its arguments."""

    name: Annotated[str, Meta(description="The name of a method, such as with_topic_selector.")]
    args: Args = []
    kwargs: Kwargs = {}


class ObjectDef(_Definition):
    """An object: its class, its constructor's arguments, the properties to set, and the methods to
    call afterwards."""

    class_: Annotated[str, Meta(description="package.module:Class", extra_json_schema=_NAMED)] = (
        msgspec.field(name="class")
    )
    factory: Annotated[
        str,
        Meta(
            description="A class method or static method that creates the object, instead of the "
            "class itself."
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

    id: Annotated[
        str, Meta(description="The name by which other definitions refer to it.", min_length=1)
    ]


class VertexDef(ComponentDef, kw_only=True):
    """A spout or a bolt."""

    parallelism: Annotated[
        Count,
        Meta(
            description="The number of executors, which is the number of processes to start with."
        ),
    ] = 1
    tasks: Annotated[
        Count | None,
        Meta(
            description="The number of tasks, fixed for the life of the topology. Default: the number "
            "of executors."
        ),
    ] = None
    config: Settings = {}


class GroupingDef(_Definition):
    """The grouping, which selects the tasks of the bolt that receive a tuple."""

    type: Annotated[GroupingType, Meta(description="The kind of grouping.")]
    args: Annotated[
        list[str], Meta(description="The fields of a FIELDS or PARTIAL_KEY grouping.")
    ] = []
    stream_id: Annotated[str, Meta(description="The stream. Default: the default stream.")] = (
        DEFAULT_STREAM
    )
    custom_class: Annotated[
        ObjectDef | None, Meta(description="The CustomStreamGrouping of a CUSTOM grouping.")
    ] = None


class StreamDef(_Definition, kw_only=True):
    """A bolt's subscription to a stream of a spout or another bolt."""

    name: Annotated[str, Meta(description="A name for readers. kstorm does not use it.")] = ""
    from_: Annotated[str, Meta(description="The spout or bolt that emits.")] = msgspec.field(
        name="from"
    )
    to: Annotated[str, Meta(description="The bolt that subscribes.")]
    grouping: GroupingDef


class IncludeDef(_Definition):
    """Another file. Its definitions are added to those of this file."""

    file: Annotated[
        str, Meta(description="The path of the file, relative to the folder of this file.")
    ]
    resource: Annotated[
        bool, Meta(description="Looks for the file in the folders of the Python path instead.")
    ] = False
    override: Annotated[
        bool,
        Meta(
            description="If true, its definitions replace those with the same names in this file. "
            "Otherwise, those in this file take precedence."
        ),
    ] = False


class SourceDef(_Definition):
    """A function that returns the topology. Its parameters `name` and `config` receive the values
    of this file."""

    function: Annotated[str, Meta(description="package.module:function", extra_json_schema=_NAMED)]
    args: Args = []
    kwargs: Kwargs = {}


class TopologyDef(_Definition):
    """A topology: spouts, bolts and the streams between them, or a function that returns it."""

    name: Annotated[str, Meta(description="The topology's name. Its topics begin with it.")] = ""
    config: Settings = {}
    includes: Annotated[list[IncludeDef], Meta(description="Other files to include.")] = []
    components: Annotated[
        list[ComponentDef],
        Meta(description="Objects that spouts, bolts and other definitions refer to."),
    ] = []
    spouts: Annotated[list[VertexDef], Meta(description="The spouts.")] = []
    bolts: Annotated[list[VertexDef], Meta(description="The bolts.")] = []
    streams: Annotated[
        list[StreamDef], Meta(description="The bolts' subscriptions to streams.")
    ] = []
    topology_source: Annotated[
        SourceDef | None,
        Meta(description="Code that wires the topology, instead of spouts, bolts and streams."),
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
