"""The topologies of the integration tests' services. Topic names come from the environment."""

import dataclasses
import json
import os
import time
from pathlib import Path

from examples import diamond as diamonds
from examples.wordcount import topology as wordcounts
from kstorm.kafka import (
    FieldNameBasedTupleToKafkaMapper,
    JsonScheme,
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    MessageMetadataSchemeAsMultiScheme,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.queues import KestrelConfig, KestrelSpout, QueueSpout, RabbitMQConfig, RabbitMQSpout
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    Fields,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.trident import (
    Count,
    MapFactory,
    OpaqueMap,
    OpaqueTridentKafkaSpout,
    TransactionalMap,
    TridentKafkaConfig,
    TridentTopology,
    kstorm_state,
)
from kstorm.windows import Duration, JoinBolt, TupleWindow, WindowedBolt
from tests.integration.databases import backing


def _config() -> Config:
    return Config(
        topology_message_timeout_secs=float(os.environ.get("KSTORM_TEST_TIMEOUT", "30")),
        topology_processing_guarantee=os.environ.get("KSTORM_TEST_GUARANTEE", "at_least_once"),
        topology_frame_format=int(os.environ.get("KSTORM_TEST_FRAME_FORMAT", "2")),
    )


def names(prefix: str) -> tuple[str, str, str]:
    """Return topology, source topic and sink topic of a test."""
    return prefix, f"{prefix}-in", f"{prefix}-out"


def wordcount() -> Topology:
    """Return the word count of the test `KSTORM_TEST_PREFIX`."""
    return wordcounts.build(*names(os.environ["KSTORM_TEST_PREFIX"]), config=_config())


def diamond() -> Topology:
    """Return the diamond of the test `KSTORM_TEST_PREFIX`."""
    return diamonds.build(*names(os.environ["KSTORM_TEST_PREFIX"]), config=_config())


def own_producer() -> Topology:
    """Return the word count with a sink that has its own producer."""
    topology = wordcount()
    sink = topology.component("sink").component
    assert isinstance(sink, KafkaBolt)
    sink.with_producer_properties({"linger.ms": 1})
    return topology


class SplitAtTheSecondAttempt(Bolt):
    """Splits sentences into words with their positions.

    The first attempt fails after half of the words.
    """

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare a word and its position."""
        declarer.declare("word", "partition", "offset", "position")

    def execute(self, tuple: Tuple) -> None:
        """Emit the words, or half of them."""
        sentence, partition, offset = tuple.values
        words = sentence.split()
        again = (partition, offset) in self.seen
        for position, word in enumerate(words if again else words[: len(words) // 2]):
            self.collector.emit((word, partition, offset, position), tuple)
        if again:
            self.collector.ack(tuple)
        else:
            self.seen.add((partition, offset))
            self.collector.fail(tuple)


def traced() -> Topology:
    """Return a topology with lineage headers and two attempts per sentence."""
    name, source, sink = names(os.environ["KSTORM_TEST_PREFIX"])
    scheme = MessageMetadataSchemeAsMultiScheme(StringScheme())
    builder = TopologyBuilder(name, _config())
    builder.set_spout(
        "sentences", KafkaSpout(SpoutConfig(KafkaHosts(), source, "/kstorm", name, scheme=scheme))
    )
    builder.set_bolt("split", SplitAtTheSecondAttempt()).shuffle_grouping("sentences")
    write = KafkaBolt().with_topic_selector(sink).with_lineage(source, part="position")
    write.with_tuple_to_kafka_mapper(FieldNameBasedTupleToKafkaMapper("word", "word"))
    builder.set_bolt("sink", write).shuffle_grouping("split")
    return builder.build()


class SplitWhole(BasicBolt):
    """Splits sentences into words with their positions."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare a word and its position."""
        declarer.declare("word", "partition", "offset", "position")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emit the words. Raises for the word `bad`."""
        sentence, partition, offset = tuple.values
        if not self.accepts(sentence):
            raise ValueError(f"no such sentence: {sentence}")
        for position, word in enumerate(sentence.split()):
            collector.emit([word, partition, offset, position])

    def accepts(self, sentence: str) -> bool:
        """True if the sentence can be split."""
        return "bad" not in sentence


class ForgetsTheMoon(Bolt):
    """Emits words again, but neither acks nor fails the word `moon`."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "partition", "offset", "position")

    def execute(self, tuple: Tuple) -> None:
        """Emit a word, or forget it."""
        if tuple["word"] != "moon":
            self.collector.emit(tuple.values, tuple)
            self.collector.ack(tuple)


def forgetful(retry_limit: int = -1) -> Topology:
    """Return a topology with lineage headers and a bolt that forgets one word."""
    name, source, sink = names(os.environ["KSTORM_TEST_PREFIX"])
    scheme = MessageMetadataSchemeAsMultiScheme(StringScheme())
    config = SpoutConfig(
        KafkaHosts(),
        source,
        "/kstorm",
        name,
        scheme=scheme,
        retry_initial_delay_ms=600_000,
        retry_delay_max_ms=600_000,
        retry_limit=retry_limit,
    )
    builder = TopologyBuilder(name, _config())
    builder.set_spout("sentences", KafkaSpout(config), 1).set_num_tasks(2)
    builder.set_bolt("split", SplitWhole(), 1).set_num_tasks(2).shuffle_grouping("sentences")
    builder.set_bolt("count", ForgetsTheMoon(), 1).set_num_tasks(4).fields_grouping("split", "word")
    write = (
        KafkaBolt()
        .with_topic_selector(sink)
        .with_lineage(source, part="position", traceparent=True)
    )
    write.with_tuple_to_kafka_mapper(FieldNameBasedTupleToKafkaMapper("word", "word"))
    builder.set_bolt("sink", write, 1).shuffle_grouping("count")
    return builder.build()


def impatient() -> Topology:
    """Return the forgetful topology without retries."""
    return forgetful(retry_limit=0)


class SplitOnceMended(SplitWhole):
    """Accepts the word `bad` when the file `KSTORM_TEST_MENDED` exists."""

    def accepts(self, sentence: str) -> bool:
        """True for all sentences after the fix."""
        return super().accepts(sentence) or Path(os.environ["KSTORM_TEST_MENDED"]).exists()


def mendable() -> Topology:
    """Return a topology with lineage headers that gives up a bad sentence at once."""
    name, source, sink = names(os.environ["KSTORM_TEST_PREFIX"])
    scheme = MessageMetadataSchemeAsMultiScheme(StringScheme())
    config = SpoutConfig(KafkaHosts(), source, "/kstorm", name, scheme=scheme, retry_limit=0)
    builder = TopologyBuilder(name, _config())
    builder.set_spout("sentences", KafkaSpout(config), 1).set_num_tasks(2)
    builder.set_bolt("split", SplitOnceMended(), 1).set_num_tasks(2).shuffle_grouping("sentences")
    write = KafkaBolt().with_topic_selector(sink).with_lineage(source, part="position")
    write.with_tuple_to_kafka_mapper(FieldNameBasedTupleToKafkaMapper("word", "word"))
    builder.set_bolt("sink", write, 1).shuffle_grouping("split")
    return builder.build()


def streams() -> Topology:
    """Return the word count of Storm's Trident tutorial for the test `KSTORM_TEST_PREFIX`."""
    name, source, sink = names(os.environ["KSTORM_TEST_PREFIX"])
    topology = TridentTopology(name)
    config = TridentKafkaConfig(KafkaHosts(), source)
    config.scheme = SchemeAsMultiScheme(StringScheme())
    counts = (
        topology.new_stream("sentences", OpaqueTridentKafkaSpout(config))
        .parallelism_hint(1, tasks=2)
        .each(Fields("str"), str.split, Fields("word"))
        .name("split")
        .group_by(Fields("word"))
        .persistent_aggregate(kstorm_state(), Count(), Fields("count"))
        .parallelism_hint(2, tasks=4)
    )
    counts.new_values_stream().to_kafka(sink, key="word")
    return topology.build()


def outside() -> Topology:
    """Return a topology that counts in the database `KSTORM_TEST_DATABASE`, with the state
    `KSTORM_TEST_STATE`."""
    name, source, _ = names(os.environ["KSTORM_TEST_PREFIX"])
    topology = TridentTopology(name)
    config = TridentKafkaConfig(KafkaHosts(), source, scheme=SchemeAsMultiScheme(StringScheme()))
    database = backing(os.environ["KSTORM_TEST_DATABASE"])
    states: dict[str, type[MapFactory]] = {"opaque": OpaqueMap, "transactional": TransactionalMap}
    words = topology.new_stream("sentences", OpaqueTridentKafkaSpout(config)).parallelism_hint(
        1, tasks=2
    )
    words = words.each(Fields("str"), str.split, Fields("word")).name("split")
    state = states[os.environ["KSTORM_TEST_STATE"]](database)
    words.group_by("word").persistent_aggregate(state, Count(), "count").parallelism_hint(
        2, tasks=4
    )
    return topology.build()


class Slow(BasicBolt):
    """A slow bolt."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Sleep for 10 ms."""
        time.sleep(0.01)


def slow() -> Topology:
    """Return a topology with a slow bolt, without a limit on messages in flight."""
    name, source, _ = names(os.environ["KSTORM_TEST_PREFIX"])
    builder = TopologyBuilder(
        name, dataclasses.replace(_config(), topology_max_spout_pending=1_000_000)
    )
    scheme = SchemeAsMultiScheme(StringScheme())
    builder.set_spout(
        "sentences", KafkaSpout(SpoutConfig(KafkaHosts(), source, "/kstorm", name, scheme=scheme))
    )
    builder.set_bolt("slow", Slow()).shuffle_grouping("sentences")
    return builder.build()


def kestrel() -> Topology:
    """Return a topology from the test's queue on the Kestrel servers `KSTORM_TEST_QUEUE` to the
    sink topic."""
    hosts = os.environ["KSTORM_TEST_QUEUE"].split(",")
    config = KestrelConfig(blacklist_time_secs=1, poll_ms=200)
    return _copy(
        KestrelSpout(hosts, 22133, os.environ["KSTORM_TEST_PREFIX"], StringScheme(), config)
    )


def rabbitmq() -> Topology:
    """Return a topology from the test's queue on the RabbitMQ `KSTORM_TEST_QUEUE` to the sink
    topic."""
    hosts = os.environ["KSTORM_TEST_QUEUE"].split(",")
    scheme = SchemeAsMultiScheme(StringScheme())
    return _copy(
        RabbitMQSpout(RabbitMQConfig(os.environ["KSTORM_TEST_PREFIX"], hosts=hosts, scheme=scheme))
    )


def _copy(spout: QueueSpout) -> Topology:
    name, _source, sink = names(os.environ["KSTORM_TEST_PREFIX"])
    builder = TopologyBuilder(name, _config())
    builder.set_spout("messages", spout).set_num_tasks(2)
    mapper = FieldNameBasedTupleToKafkaMapper("str", "str")
    write = KafkaBolt().with_topic_selector(sink).with_tuple_to_kafka_mapper(mapper)
    builder.set_bolt("sink", write).set_num_tasks(2).shuffle_grouping("messages")
    return builder.build()


class Visits(WindowedBolt):
    """Emits the user and the numbers of a session."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "message")

    def execute(self, window: TupleWindow) -> None:
        numbers = [tuple["n"] for tuple in window]
        self.collector.emit([window.key[0], json.dumps({"shown": numbers})])


class PassClicks(BasicBolt):
    """Emits what it receives."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("user", "at", "n")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(list(tuple.values))


def visits() -> Topology:
    """Return the sessions of clicks, with event time from the partitions of the source."""
    name, source, sink = names(os.environ["KSTORM_TEST_PREFIX"])
    builder = TopologyBuilder(name, _config())
    scheme = SchemeAsMultiScheme(JsonScheme("user", "at", "n"))
    config = SpoutConfig(KafkaHosts(), source, "/kstorm", name, scheme=scheme, event_time="at")
    builder.set_spout("clicks", KafkaSpout(config), 2)
    builder.set_bolt("parse", PassClicks(), 2).shuffle_grouping("clicks")
    sessions = Visits().with_session_window(Duration.seconds(30), "user")
    sessions.with_timestamp_field("at").with_lag(Duration.seconds(10))
    builder.set_bolt("visits", sessions, 2).fields_grouping("parse", "user")
    builder.set_bolt("sink", KafkaBolt().with_topic_selector(sink)).shuffle_grouping("visits")
    return builder.build()


class Side(BasicBolt):
    """Emits the rows of one side of a join."""

    def __init__(self, side: str) -> None:
        self.side = side

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id", "value", "at")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if tuple["side"] == self.side:
            collector.emit([tuple["id"], tuple["value"], tuple["at"]])


class First(StatefulBasicBolt):
    """Emits the first value of each ID, as its state returns it."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        id, name = tuple["left:id"], f"first {tuple['left:id']!r}"
        if id is not None and self.state.get(name) is None:
            self.state.put(name, tuple["left:value"])
        row = {
            "id": id,
            "at": tuple["left:at"],
            "value": tuple["left:value"],
            "partner": tuple["right:value"],
            "first": self.state.get(name),
        }
        collector.emit([id, row])


def values() -> Topology:
    """Return a join of two sides of the source by `id`, and the first value of each `id`.

    The spout has a process without partitions if the source has two.
    """
    name, source, sink = names(os.environ["KSTORM_TEST_PREFIX"])
    builder = TopologyBuilder(name, _config())
    scheme = SchemeAsMultiScheme(JsonScheme("side", "id", "value", "at"))
    config = SpoutConfig(KafkaHosts(), source, "/kstorm", name, scheme=scheme, event_time="at")
    builder.set_spout("rows", KafkaSpout(config), 3)
    for side in ("left", "right"):
        builder.set_bolt(side, Side(side)).shuffle_grouping("rows")
    join = JoinBolt("left", "id").left_join("right", "id", "left")
    join.select("left:id", "left:at", "left:value", "right:value")
    join.with_tumbling_window(Duration.seconds(10)).with_timestamp_field("at")
    joined = builder.set_bolt("joined", join)
    joined.fields_grouping("left", "id").fields_grouping("right", "id")
    builder.set_bolt("first", First()).fields_grouping("joined", "left:id")
    builder.set_bolt("sink", KafkaBolt().with_topic_selector(sink)).shuffle_grouping("first")
    return builder.build()
