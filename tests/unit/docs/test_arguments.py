"""Each public function and method refuses arguments of the wrong type, by name, when it is called.

The table below the imports lists what is left out. A new public method without a check fails here.
"""

import collections.abc
import importlib
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from kstorm.client import StateClient
from kstorm.errors import KstormError
from kstorm.fitting import fits
from kstorm.kafka import (
    Broker,
    BrokerHosts,
    GlobalPartitionInformation,
    JsonSerializer,
    KafkaHosts,
    MultiScheme,
    Scheme,
    SchemeAsMultiScheme,
    Serializer,
    SpoutConfig,
    StringScheme,
)
from kstorm.multilang import ShellBolt, ShellSpout
from kstorm.queues import RabbitMQConfig
from kstorm.registry import SchemaRegistry
from kstorm.testing import BoltTester, FeederSpout, FixedTuple, LocalCluster, TupleCaptureBolt
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import (
    BoltDeclarer,
    OutputFieldsDeclarer,
    Spout,
    SpoutDeclarer,
    Topology,
    TopologyBuilder,
)
from kstorm.trident import (
    Chain,
    CombinerAggregator,
    Count,
    GroupedStream,
    MapFactory,
    MapGet,
    OpaqueMap,
    QueryFunction,
    Sessions,
    SqlMap,
    StateUpdater,
    Stream,
    TridentKafkaConfig,
    TridentState,
    TridentTopology,
    Window,
    kstorm_state,
)
from kstorm.windows import Count as WindowCount
from kstorm.windows import Duration, JoinBolt

MODULES = (
    "kstorm.topology",
    "kstorm.kafka",
    "kstorm.queues",
    "kstorm.registry",
    "kstorm.flux",
    "kstorm.trident",
    "kstorm.windows",
    "kstorm.streamparse",
    "kstorm.multilang",
    "kstorm.testing",
    "kstorm.testing.kafka",
    "kstorm.testing.strategies",
    "kstorm.client",
)


HOOKS = {
    *("ack", "activate", "aggregate", "apply", "batch_retrieve", "begin_commit", "begin_life"),
    *("choose", "choose_tasks", "cleanup", "close", "columns_of_batch", "combine", "commit"),
    *("complete", "deactivate", "declare_output_fields", "deserialize", "deserialize_with_topic"),
    *("deserialize_key_and_value", "deserialize_message_with_metadata", "event_time", "execute"),
    *("execute_batch", "executor", "fail", "fold", "fold_columns", "get_component_configuration"),
    *("gave_up", "get_key_from_tuple", "get_message_from_tuple", "get_topic", "holders", "init"),
    *("init_state", "is_keep", "make_manager", "make_state", "map", "metrics", "multi_get"),
    *("multi_put", "next_tuple", "of", "on_completion", "open", "open_reader", "origins"),
    *("positions", "positions_committed", "pre_commit", "pre_prepare", "pre_rollback", "prepare"),
    *(
        "problem",
        "reduce",
        "refuses",
        "refuses_exactly_once",
        "refuses_inputs",
        "grouped_by",
        "result",
        "serialize",
    ),
    *("update_state", "watermark", "zero"),
    *("group_key", "initialize", "process", "process_batch", "process_batches", "process_tick"),
}
"""Methods that kstorm calls."""
MADE_BY_KSTORM = {
    *("ComponentSpec", "FakeRecord", "Input", "KafkaCluster"),
    *("KafkaPorts", "MapState", "PartitionCoordinator", "PartitionManager", "QueuePorts"),
    *("SimulationError", "SimulationReport", "Snapshottable", "StateEntry", "StoredOffset"),
    *("StreamSpec", "TaskError", "Topology", "TopologyContext", "TridentTuple", "Tuple"),
    *("TupleBatch", "TupleWindow", "WindowCollector", "Wiring"),
}
"""Classes whose constructors are not for users, and whose methods run for each tuple, if any."""
LEFT_OUT = {
    *("Stream.__init__", "GroupedStream.__init__", "Chain.__init__", "BoltDeclarer.__init__"),
    *("OutputFieldsDeclarer.__init__", "EventTime.latest", "ExponentialBackoffRetryManager.done"),
    *("ExponentialBackoffRetryManager.failed", "ExponentialBackoffRetryManager.retry_further"),
    "ExponentialBackoffRetryManager.next_failed_message_to_retry",
    *("ExponentialBackoffRetryManager.retry_started", "Fields.index", "Fields.select"),
    "KestrelConfig.open_reads_per_host",
    *("RabbitMQConfig.delay", "RabbitMQConfig.prefetch", "SpoutConfig.zk_path_of"),
    *("OpaqueTridentKafkaSpout.spout", "TridentKafkaConfig.spout_config", "FirstN.apply"),
    *("LocalCluster.any_place", "StateClient.name_of", "calculate_partitions_for_task"),
    *("hosts_for_task", "build", "Config.get"),
    # streamparse's, which run for each tuple
    *("BatchingBolt.emit", "BatchingBolt.emit_many", "BatchingBolt.is_heartbeat"),
    *("BatchingBolt.is_tick", "BatchingBolt.log", "BatchingBolt.raise_exception"),
    *("BatchingBolt.report_metric", "Bolt.emit", "ReliableSpout.emit", "ReliableSpout.emit_many"),
    "Spout.emit",
}
"""Functions that kstorm itself calls."""


class PublicFunction(NamedTuple):
    owner: type | None
    name: str
    function: Callable[..., Any]

    @property
    def title(self) -> str:
        return f"{self.owner.__name__}.{self.name}" if self.owner else self.name


def public_functions() -> Iterator[PublicFunction]:
    seen: set[Any] = set()
    for module in MODULES:
        found = importlib.import_module(module)
        names = getattr(found, "__all__", None) or [
            name
            for name, value in vars(found).items()
            if name[0] != "_" and getattr(value, "__module__", "") == module
        ]
        for value in (getattr(found, name) for name in names):
            if inspect.isfunction(value) and value not in seen:
                seen.add(value)
                yield PublicFunction(None, value.__name__, value)
            elif isinstance(value, type) and not getattr(value, "_is_protocol", False):
                for each in _methods_of(value):
                    if each.function not in seen:
                        seen.add(each.function)
                        yield each


def _methods_of(kind: type) -> Iterator[PublicFunction]:
    for base in kind.__mro__:
        if base.__module__.startswith("kstorm"):
            for name, value in vars(base).items():
                if inspect.getattr_static(kind, name) is not value:
                    continue  # a class between the two overrides it
                function = (
                    value.__func__ if isinstance(value, classmethod | staticmethod) else value
                )
                if inspect.isfunction(function) and (name == "__init__" or name[0] != "_"):
                    yield PublicFunction(kind, name, function)


def hints_of(each: PublicFunction) -> dict[str, Any]:
    return typing.get_type_hints(each.function, localns={"FakeKafka": FakeKafka})


class Evil(NamedTuple):
    name: str
    value: Any


EVIL = (
    Evil("a bool", True),
    Evil("text", "nonsense"),
    Evil("empty text", ""),
    Evil("None", None),
    Evil("a float", 1.5),
    Evil("a negative number", -3),
    Evil("NaN", math.nan),
    Evil("bytes", b"raw"),
    Evil("a function of five arguments", lambda a, b, c, d, e: None),
    Evil("a list of lists", [["x"]]),
    Evil("a class", FeederSpout),
    Evil("an object", object()),
)


def sample(hint: Any) -> Any:
    """Return a valid value of a type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return sample(args[0])
    if origin is typing.Annotated:
        return sample(args[0])
    if origin is typing.Literal:
        return args[0]
    if origin is collections.abc.Callable:
        return lambda *given: None
    if origin is type or hint is type:
        return TupleCaptureBolt
    kind = origin or hint
    if kind in SAMPLES:
        return SAMPLES[kind]()
    if kind is Any or not isinstance(kind, type):
        return "x"
    if issubclass(kind, collections.abc.Mapping):
        return {}
    if issubclass(kind, collections.abc.Iterable):
        return [sample(args[0])] if args else ["x"]
    return kind()


def topology() -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("s", FeederSpout("x"))
    builder.set_bolt("b", TupleCaptureBolt()).shuffle_grouping("s")
    return builder.build()


def stream() -> Stream:
    return TridentTopology("t").new_stream("s", FeederSpout("x"))


class Updater(StateUpdater): ...


def spout_config() -> SpoutConfig:
    return SpoutConfig(KafkaHosts(), "t", "/z", "s", scheme=SchemeAsMultiScheme(StringScheme()))


SAMPLES: dict[Any, Callable[[], Any]] = {
    bool: lambda: True,
    bytes: lambda: b"raw",
    dict: dict,
    float: lambda: 1.0,
    int: lambda: 1,
    list: list,
    str: lambda: "x",
    timedelta: lambda: timedelta(seconds=1),
    Broker: lambda: Broker("host", 9092),
    BrokerHosts: KafkaHosts,
    CombinerAggregator: Count,
    Count: Count,
    Duration: lambda: Duration(1000),
    FakeKafka: FakeKafka,
    GlobalPartitionInformation: lambda: GlobalPartitionInformation("t"),
    MapFactory: lambda: OpaqueMap(SqlMap(object, "t")),
    MultiScheme: lambda: SchemeAsMultiScheme(StringScheme()),
    Path: Path,
    QueryFunction: MapGet,
    RabbitMQConfig: lambda: RabbitMQConfig("q"),
    Random: Random,
    SchemaRegistry: lambda: SchemaRegistry("http://localhost:1"),
    Scheme: StringScheme,
    Serializer: JsonSerializer,
    Spout: lambda: FeederSpout("x"),
    SpoutConfig: spout_config,
    FixedTuple: lambda: FixedTuple(["x"]),
    Stream: stream,
    Topology: topology,
    TridentKafkaConfig: lambda: TridentKafkaConfig(KafkaHosts(), "t"),
    TridentState: lambda: stream().persistent_aggregate(kstorm_state(), Count(), "n"),
    WindowCount: lambda: WindowCount(3),
    Window: lambda: Window(Duration(1000)),
}
SELVES: dict[type, Callable[[], Any]] = {
    **SAMPLES,
    BoltDeclarer: lambda: TopologyBuilder("t").set_bolt("b", TupleCaptureBolt()),
    SpoutDeclarer: lambda: TopologyBuilder("t").set_spout("s", FeederSpout("x")),
    Chain: lambda: stream().chained_agg(),
    GroupedStream: lambda: stream().group_by("x"),
    JoinBolt: lambda: JoinBolt("s", "x"),
    LocalCluster: lambda: LocalCluster(topology()),
    BoltTester: lambda: BoltTester(TupleCaptureBolt(), "x"),
    Sessions: lambda: Sessions(Duration(1000)),
    ShellBolt: lambda: ShellBolt(["x"]),
    ShellSpout: lambda: ShellSpout(["x"]),
    StateClient: lambda: object.__new__(StateClient),  # it would look for a topology
    TopologyBuilder: lambda: TopologyBuilder("t"),
    TridentTopology: lambda: TridentTopology("t"),
    OutputFieldsDeclarer: lambda: OutputFieldsDeclarer("b"),
}
"""A new object of each class that has methods with checks."""
REQUIRED: dict[str, dict[str, Any]] = {
    "AvroScheme": {"fields": "x"},
    "JsonSchemaScheme": {"fields": "x"},
    "ProtobufScheme": {"fields": "x"},
    "SpoutConfig": {"id": "s"},
}
"""Arguments without which a constructor refuses all others."""


def callee(each: PublicFunction) -> Callable[..., Any]:
    if each.owner is None:
        return each.function
    if each.name == "__init__":
        return each.owner
    if isinstance(inspect.getattr_static(each.owner, each.name), classmethod | staticmethod):
        return getattr(each.owner, each.name)  # type: ignore[no-any-return]
    return getattr(SELVES.get(each.owner, each.owner)(), each.name)  # type: ignore[no-any-return]


def check(each: PublicFunction, parameter: inspect.Parameter, evil: Evil) -> str:
    """Return "" if a value is refused as it should be, or else what happened."""
    signature = inspect.signature(each.function)
    hints = hints_of(each)
    args: list[Any] = []
    named: dict[str, Any] = {}
    for name, one in signature.parameters.items():
        if name in ("self", "cls"):
            continue
        value = evil.value if name == parameter.name else None
        required = REQUIRED.get(each.owner.__name__, {}) if each.owner else {}
        if name in required and name != parameter.name:
            value = required[name]
        elif name != parameter.name:
            if one.default is not inspect.Parameter.empty or one.kind in (2, 4):
                continue
            value = sample(hints[name])
        if one.kind == one.VAR_POSITIONAL:
            args = [*named.values(), value]
            named = {}
        elif one.kind == one.VAR_KEYWORD:
            named["unknown"] = value
        else:
            named[name] = value
    try:
        callee(each)(*args, **named)
    except KstormError as error:
        text = str(error)
        shown = f"{evil.value!r}"[:40].removeprefix("[").removesuffix("]")
        if (
            parameter.name not in text
            and shown not in text
            and type(evil.value).__name__ not in text
        ):
            return f"is refused without its name: {text}"
        return ""
    except Exception as error:  # noqa: BLE001 - any other error is what this test looks for
        return f"raises {type(error).__name__}: {error}"
    return "is accepted"


def checked_functions() -> list[PublicFunction]:
    return [
        each
        for each in public_functions()
        if each.name not in HOOKS
        and each.title not in LEFT_OUT
        and (each.owner is None or each.owner.__name__ not in MADE_BY_KSTORM)
    ]


def parameters() -> Iterator[tuple[PublicFunction, inspect.Parameter]]:
    for each in checked_functions():
        for parameter in inspect.signature(each.function).parameters.values():
            if parameter.name not in ("self", "cls"):
                yield each, parameter


def of_wrong_type(each: PublicFunction, parameter: inspect.Parameter) -> list[Evil]:
    hint = hints_of(each).get(parameter.name, Any)
    return [evil for evil in EVIL if not fits(evil.value, hint)]


MAY_BE_EMPTY = {
    *("KafkaConfig.client_id", "SpoutConfig.client_id", "SpoutConfig.zk_root", "Debug.name"),
    *("RabbitMQConfig.virtual_host", "RabbitMQConfig.username", "RabbitMQConfig.password"),
    *("RabbitMQConfig.password_file", "RabbitMQTls.ca_file", "RabbitMQTls.certificate_file"),
    *("RabbitMQTls.key_file", "StateClient.get.key", "StateClient.find.key"),
    *("StateClient.look.key", "StateClient.follow.key", "StateClient.scan.prefix"),
    *("StateClient.follow_all.prefix", "TridentKafkaConfig.client_id"),
    *("ShellBolt.spec.script", "ShellSpout.spec.script"),
}
MAY_BE_NEGATIVE = {
    *("LocalCluster.seed", "FakeKafka.cluster.seed", "complete_topology.seed"),
    "FakeKafka.produce.timestamp",
}
OUT_OF_RANGE = (
    (int, Evil("-3", -3), MAY_BE_NEGATIVE),
    (float, Evil("NaN", math.nan), ()),
    (float, Evil("-3.0", -3.0), ()),
    (str, Evil("empty text", ""), MAY_BE_EMPTY),
)


def evil_values(each: PublicFunction, parameter: inspect.Parameter) -> list[Evil]:
    """Return the values that a parameter must refuse."""
    hint = hints_of(each).get(parameter.name, Any)
    name = f"{each.title}.{parameter.name}".replace(".__init__", "")
    return [evil for evil in EVIL if not fits(evil.value, hint)] + [
        evil
        for kind, evil, allowed in OUT_OF_RANGE
        if hint in (kind, kind | None) and name not in allowed
    ]


@pytest.mark.parametrize("each", checked_functions(), ids=lambda each: each.title)
def test_wrong_arguments_are_refused_by_name(each: PublicFunction) -> None:
    wrong = [
        f"{parameter.name}: {evil.name} {found}"
        for parameter in inspect.signature(each.function).parameters.values()
        if parameter.name not in ("self", "cls")
        for evil in evil_values(each, parameter)
        if (found := check(each, parameter, evil))
    ]
    assert wrong == []


def test_many_arguments_are_checked() -> None:
    assert sum(len(evil_values(*each)) for each in parameters()) > 4000


def test_names_of_the_tables_exist() -> None:
    every = list(public_functions())
    assert {each.name for each in every} >= HOOKS
    assert {each.owner.__name__ for each in every if each.owner} >= MADE_BY_KSTORM
    assert {each.title for each in every} >= LEFT_OUT
