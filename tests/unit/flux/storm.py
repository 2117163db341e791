"""The classes of Storm's Flux examples, in Python: a spout, a counter, a log bolt and others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any, Self

from kstorm.kafka import KafkaHosts, SchemeAsMultiScheme, StringScheme
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    CustomStreamGrouping,
    Fields,
    OutputFieldsDeclarer,
    Spout,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)
from kstorm.trident import (
    Count,
    OpaqueTridentKafkaSpout,
    TridentKafkaConfig,
    TridentTopology,
    kstorm_state,
)
from kstorm.windows import TupleWindow, WindowedBolt

WORDS = ["nathan", "mike", "jackson", "golda", "bertels"]
SENTENCES = ["the cow jumped over the moon", "an apple a day keeps the doctor away"]


class TestWordSpout(Spout):
    """Emits each of five names twice, one per tuple."""

    __test__ = False
    items: Sequence[str] = WORDS * 2

    def __init__(self, fields: Sequence[str] = ("word",)) -> None:
        self._fields = fields
        self._left = list(enumerate(self.items))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self._fields)

    def next_tuple(self) -> None:
        if self._left:
            number, item = self._left.pop(0)
            self.collector.emit([item], message_id=number)


class Streams(TestWordSpout):
    """Declares a direct stream and a late one."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")
        declarer.declare_stream("late", "word")
        declarer.declare_stream("to-one", "word", direct=True)


class SentenceSpout(TestWordSpout):
    """Emits sentences. Storm's version is a JavaScript program with a command line and fields."""

    items = SENTENCES

    def __init__(self, command: Sequence[str], fields: Sequence[str]) -> None:
        super().__init__(fields)
        self.command = command
        self.settings: dict[str, Any] = {}

    def add_component_config(self, name: str, value: Any) -> None:
        self.settings[name] = value

    def get_component_configuration(self) -> dict[str, Any]:
        return self.settings


class SplitSentence(BasicBolt):
    """Splits sentences. Storm's version is a Python program."""

    def __init__(self, command: Sequence[str], fields: Sequence[str]) -> None:
        self.command, self._fields = command, fields
        self.settings: dict[str, Any] = {}

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self._fields)

    def add_component_config(self, name: str, value: Any) -> None:
        self.settings[name] = value

    def get_component_configuration(self) -> dict[str, Any]:
        return self.settings

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        for word in tuple[0].split():
            collector.emit([word])


class TestWordCounter(BasicBolt):
    """Counts words in memory."""

    __test__ = False

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        word = tuple[0]
        self._counts[word] = self._counts.get(word, 0) + 1
        collector.emit([word, self._counts[word]])


class StatefulWordCounter(StatefulBasicBolt):
    """Counts words with state."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        count = self.state.get(tuple["word"], 0) + 1
        self.state.put(tuple["word"], count)
        collector.emit([tuple["word"], count])


class LogInfoBolt(BasicBolt):
    """Emits its input, so that a test can check it. Storm's bolt logs it."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit([tuple[0]])


class NGrouping(CustomStreamGrouping):
    """Sends to the first N tasks."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._targets: Sequence[int] = ()

    def prepare(
        self,
        context: TopologyContext | None,
        component: str,
        stream: str,
        target_tasks: Sequence[int],
    ) -> None:
        self._targets = target_tasks[: self._n]

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        return self._targets


class TestEnum(Enum):
    """Values that a file uses by name."""

    __test__ = False
    FOO = 1
    BAR = 2


class TestClass:
    """An object with a field."""

    __test__ = False

    def __init__(self, field: str) -> None:
        self.field = field


class TestBolt(LogInfoBolt):
    """A bolt with every kind of configuration."""

    __test__ = False

    def __init__(
        self, te: TestEnum | int, f: float = 0.0, b: bool = False, classes: Sequence[TestClass] = ()
    ) -> None:
        self.given = (te, f, b, [one.field for one in classes])
        self.foo = self.bar = self.foobar = self.none = ""
        self.classes: list[str] = []
        self.durations: list[timedelta] = []
        self.time_len_set: timedelta | None = None
        self.weight: float | None = None
        self.level: Any = None

    def with_foo(self, foo: str) -> None:
        self.foo = foo

    def with_none(self) -> None:
        self.none = "hit"

    def with_bar(self, bar: str) -> None:
        self.bar = bar

    def with_foo_bar(self, foo: str, bar: str) -> None:
        self.foobar = foo + bar

    def with_classes(self, classes: Sequence[TestClass]) -> None:
        self.classes = [one.field for one in classes]

    def with_duration(self, duration: timedelta) -> None:
        self.durations = [duration]

    def with_durations(self, durations: Sequence[timedelta]) -> None:
        self.durations = list(durations)

    def set_time_len(self, duration: timedelta) -> None:
        self.time_len_set = duration

    def set_weight(self, weight: float | None) -> None:
        self.weight = weight

    @classmethod
    def new_instance(cls, te: TestEnum = TestEnum.FOO) -> Self:
        return cls(te)

    @staticmethod
    def new_long_instance(number: int) -> "TestBolt":
        if not isinstance(number, int):
            raise TypeError(f"{number!r} is not a number")
        return TestBolt(number)


@dataclass(frozen=True)
class Limits:
    """An immutable object whose methods return changed copies."""

    rows: int = 0
    guarantee: TestEnum | None = None

    def with_rows(self, rows: int) -> Self:
        return replace(self, rows=rows)

    def total(self) -> int:
        return self.rows


class Units(Enum):
    """Units of sizes."""

    KB = 1
    MB = 2


class FileSizeRotationPolicy:
    """A stand-in for the class of Storm's HDFS bolt."""

    def __init__(self, count: float, units: Units) -> None:
        self.count, self.units = count, units


class Configured:
    """Records its arguments and calls.

    It replaces the policies and mappers of HDFS and HBase bolts.
    """

    def __init__(self, *args: Any) -> None:
        self.args = args
        self.told: dict[str, Any] = {}

    @classmethod
    def made_of(cls, one: Any) -> Self:
        return cls(one)

    def tell(self, name: str, value: Any) -> None:
        self.told[name] = value


class Shortening(LogInfoBolt):
    """Emits each word without its first letter."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if len(tuple[0]) > 1:
            collector.emit([tuple[0][1:]])


class ConfiguredBolt(LogInfoBolt, Configured):
    """A bolt that records its configuration."""


class Window(WindowedBolt):
    """Emits the new words of a window."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, window: TupleWindow) -> None:
        for tuple in window.new:
            self.collector.emit(tuple.values)


class ColumnFields:
    """Like Storm's `Fields`, but accepts only a list."""

    def __init__(self, names: Sequence[str]) -> None:
        if isinstance(names, str):
            raise TypeError(f"{names!r} is not a list of names")
        self.fields = Fields(names)


class FieldSelector:
    """Selects the field of a tuple to write."""

    def __init__(self, name: str) -> None:
        self.name = name


class StatementBuilder:
    """A stand-in for the class of Storm's Cassandra bolt, which binds its fields in order."""

    def __init__(self, statement: str) -> None:
        self.statement = statement
        self.bound: list[str] = []

    def bind(self, *selectors: FieldSelector) -> None:
        self.bound += [each.name for each in selectors]


def simple_topology(prefix: str, suffix: str, config: Mapping[str, Any] | Config) -> Topology:
    """Wires a topology in code, as Storm's `SimpleTopologySource` does."""
    assert isinstance(config, Config)
    builder = TopologyBuilder(f"{prefix}-{suffix}", config)
    builder.set_spout("sentence-spout", TestWordSpout())
    builder.set_bolt("log", LogInfoBolt()).shuffle_grouping("sentence-spout")
    return builder.build()


def named_topology(name: str, config: Config) -> Topology:
    """Wires the same topology with the name of the file."""
    builder = TopologyBuilder(name, config)
    builder.set_spout("sentence-spout", TestWordSpout())
    builder.set_bolt("log", LogInfoBolt()).shuffle_grouping("sentence-spout")
    return builder.build()


def trident_topology(name: str, config: Config) -> Topology:
    """Uses streams instead of spouts and bolts."""
    source = TridentKafkaConfig(KafkaHosts(), "sentences")
    source.scheme = SchemeAsMultiScheme(StringScheme())
    topology = TridentTopology(name, config)
    sentences = topology.new_stream("sentences", OpaqueTridentKafkaSpout(source))
    words = sentences.flat_map(str.split, Fields("word"))
    counts = words.group_by(Fields("word")).persistent_aggregate(
        kstorm_state(), Count(), Fields("count")
    )
    counts.new_values_stream().to_kafka("counts", key="word")
    return topology.build()


def no_topology() -> str:
    """Returns a string instead of a topology."""
    return "a topology"
