"""A topology is rejected if a component reads a field that its inputs lack."""

from collections.abc import Callable
from typing import Any

import pytest

from kstorm.errors import KstormError, TopologyError
from kstorm.kafka import (
    FieldIndexTopicSelector,
    FieldNameBasedTupleToKafkaMapper,
    FieldNameTopicSelector,
    KafkaBolt,
    KafkaHosts,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.testing import FeederSpout, TupleCaptureBolt
from kstorm.topology import BoltDeclarer, DistinctBolt, EventTime, Topology, TopologyBuilder
from kstorm.trident import Count, Stream, TridentTopology, Window
from kstorm.windows import Duration, JoinBolt, TupleWindow, WindowedBolt


class Shown(WindowedBolt):
    def execute(self, window: TupleWindow) -> None: ...


def built(bolt: Any, wire: Callable[[BoltDeclarer], object], tasks: int = 1) -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("clicks", FeederSpout("user", "at"))
    wire(builder.set_bolt("bolt", bolt, tasks))
    return builder.build()


def to_kafka(selector: Any) -> KafkaBolt:
    mapper = FieldNameBasedTupleToKafkaMapper("user", "at")
    return KafkaBolt().with_topic_selector(selector).with_tuple_to_kafka_mapper(mapper)


HAS = "the stream 'default' of 'clicks' has user, at"
WINDOWS = Shown().with_tumbling_window(Duration(10))


@pytest.mark.parametrize(
    ("bolt", "message"),
    [
        (
            Shown().with_tumbling_window(Duration(10)).with_timestamp_field("when"),
            f"its tuples have their time in the field 'when', but {HAS}: add the field",
        ),
        (
            Shown().with_session_window(Duration(10), "who"),
            f"the key of its sessions has the field 'who', but {HAS}: add the field",
        ),
        (DistinctBolt("user", "id"), f"it needs the field 'id', but {HAS}"),
        (DistinctBolt("page", "user"), f"it needs the field 'page', but {HAS}"),
        (
            KafkaBolt().with_topic_selector("out"),
            f"its KafkaBolt writes the field 'message', but {HAS}",
        ),
        (
            to_kafka(FieldNameTopicSelector("topic")),
            f"its KafkaBolt takes the topic from the field 'topic', but {HAS}",
        ),
        (
            to_kafka(FieldIndexTopicSelector(2)),
            f"its KafkaBolt takes the topic from the value at index 2, but {HAS}",
        ),
        (
            JoinBolt("clicks", "user").select("user", "clicks:page").with_window(Duration(1)),
            "it selects 'clicks:page', but the fields of 'clicks' are user, at",
        ),
        (
            JoinBolt("clicks", "user").select("page").with_window(Duration(1)),
            "it selects 'page', but the fields of its sources are user, at",
        ),
    ],
)
def test_a_field_that_an_input_lacks(bolt: Any, message: str) -> None:
    with pytest.raises(TopologyError) as raised:
        built(bolt, lambda declared: declared.shuffle_grouping("clicks"))
    assert str(raised.value).startswith(f"bolt 'bolt': {message}")


def test_selectors_with_a_default_accept_inputs_without_the_field() -> None:
    for selector in (FieldNameTopicSelector("topic", "out"), FieldIndexTopicSelector(2, "out")):
        built(to_kafka(selector), lambda declared: declared.shuffle_grouping("clicks"))


@pytest.mark.parametrize(
    "wire",
    [
        lambda declared: declared.shuffle_grouping("clicks"),
        lambda declared: declared.none_grouping("clicks"),
        lambda declared: declared.partial_key_grouping("clicks", "user"),
        lambda declared: declared.fields_grouping("clicks", ["user", "at"]),
        lambda declared: declared.fields_grouping("clicks", "at"),
    ],
)
def test_a_grouping_that_splits_keys(wire: Any) -> None:
    """Otherwise it would split sessions, and let duplicates pass."""
    for bolt in (Shown().with_session_window(Duration(10), "user"), DistinctBolt("at", "user")):
        with pytest.raises(TopologyError, match="with the same user reach different tasks"):
            built(bolt, wire, tasks=2)
        built(bolt, wire)
        for good in (
            lambda declared: declared.fields_grouping("clicks", "user"),
            lambda declared: declared.global_grouping("clicks"),
            lambda declared: declared.all_grouping("clicks"),
        ):
            built(bolt, good, tasks=2)


def test_an_event_time_that_no_stream_of_a_spout_has() -> None:
    """The watermark would never advance, and no window would end."""
    spout = FeederSpout("user", "at")
    builder = TopologyBuilder("t")
    builder.set_spout("clicks", spout)
    builder.set_bolt("bolt", TupleCaptureBolt()).shuffle_grouping("clicks")
    spout.event_time = lambda: EventTime("at")  # type: ignore[method-assign]
    builder.build()
    spout.event_time = lambda: EventTime("when")  # type: ignore[method-assign]
    with pytest.raises(TopologyError, match="'when', but its streams have only user, at"):
        builder.build()
    spout.event_time = lambda: "at"  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(TopologyError, match="event_time of the spout 'clicks' is 'at'"):
        builder.build()


def test_an_event_time_that_a_scheme_does_not_have() -> None:
    scheme = SchemeAsMultiScheme(StringScheme())
    SpoutConfig(KafkaHosts(), "t", id="s", scheme=scheme, event_time="str")
    with pytest.raises(KstormError, match="event_time is 'at', but the scheme has only"):
        SpoutConfig(KafkaHosts(), "t", id="s", scheme=scheme, event_time="at")


def stream() -> tuple[TridentTopology, Stream]:
    topology = TridentTopology("t")
    return topology, topology.new_stream("clicks", FeederSpout("user", "at"))


@pytest.mark.parametrize(
    "use",
    [
        lambda clicks: clicks.map(lambda user: user),
        lambda clicks: clicks.flat_map(lambda user, at, more: [user]),
        lambda clicks: clicks.each("user", lambda user, at: [user], "new"),
        lambda clicks: clicks.each(["user", "at"], lambda user: True),
        lambda clicks: clicks.filter(lambda user: True),
    ],
)
def test_a_function_of_another_number_of_values(use: Callable[[Stream], Stream]) -> None:
    """Every tuple would fail. The message has the line of the function."""
    topology, clicks = stream()
    use(clicks)
    with pytest.raises(TopologyError, match=r"test_fields_of_inputs.py:\d+: .*lambda cannot be"):
        topology.build()


@pytest.mark.parametrize(
    "use",
    [
        lambda clicks: clicks.each("user", Count, "new"),
        lambda clicks: clicks.aggregate(Count, "n"),
        lambda clicks: clicks.aggregate("user", lambda one: one, "n"),
        lambda clicks: clicks.aggregate("user", 3, "n"),
        lambda clicks: clicks.each("user", None, "new"),
        lambda clicks: clicks.map(3),
        lambda clicks: clicks.filter("user"),
        lambda clicks: clicks.filter("user", 3),
        lambda clicks: clicks.peek(lambda one, other: None),
        lambda clicks: clicks.min_by("user", lambda: 1),
        lambda clicks: clicks.group_by("user").window(Window, Count(), "n"),
        lambda clicks: clicks.chained_agg().aggregate(Count, "n"),
    ],
)
def test_operations_that_are_none(use: Callable[[Any], Any]) -> None:
    with pytest.raises(KstormError):
        use(stream()[1])
