"""The streams topology under test: branches of one spout, as many as requested.

    messages ─┬─▶ split ─▶ count ─▶ sink              trident: Storm's word count in Trident
              ├─▶ windows ──────────────▶ told        window: a sliding event-time window of tuples
              ├─▶ spans ────────────────▶ told            and one of sums, in many panes
              └─▶ left, right ─┬▶ joined ─▶ told      join: of two streams in an event-time window,
                               └▶ paired ─▶ told            and over all messages so far

A message is a JSON object: `id`, `at` (its event time), `group`, `side` and `text`, which is words.
The word `!raise` makes the first bolt of each branch always raise. The word `!large` makes `split`
emit more than a record may hold.

Trident builds an ordinary topology from its streams, so ordinary bolts can be connected to its
components.
"""

import os
from collections.abc import Callable
from typing import Any, Final
from zlib import crc32

import msgspec

from kstorm.kafka import JsonScheme, KafkaBolt, KafkaHosts, SchemeAsMultiScheme
from kstorm.topology import (
    Config,
    Fields,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)
from kstorm.topology.config import EXACTLY_ONCE
from kstorm.trident import (
    CombinerAggregator,
    Count,
    Function,
    OpaqueTridentKafkaSpout,
    Stream,
    TridentKafkaConfig,
    TridentTopology,
    Window,
    kstorm_state,
)
from kstorm.trident.step_factories import aggregate_step
from kstorm.trident.windows import window_bolt
from kstorm.windows import Duration, JoinBolt, TupleWindow, WindowCollector, WindowedBolt
from tests.chaos.topology import LARGE, LARGE_BYTES, RAISE, RETRIES, SOURCE, TIMEOUT_VARIABLE

NAME: Final = "streams"
REFERENCE: Final = "tests.chaos.streams:topology"
"""The reference that the services load."""
BRANCHES_VARIABLE: Final = "KSTORM_CHAOS_BRANCHES"
"""The environment variable with the branches."""
TRIDENT: Final = "trident"
WINDOW: Final = "window"
JOIN: Final = "join"
BRANCHES: Final = (TRIDENT, WINDOW, JOIN)
OFFSETS_PATH: Final = f"/transactional/{NAME}/messages"
COUNTS: Final = "chaos-counts"
TOLD: Final = "chaos-told"
LENGTH_MS: Final = 4000
"""Length of a sliding window."""
SLIDE_MS: Final = 2000
SPAN_SLIDE_MS: Final = 100
"""Slide of the window whose sums have running totals (`kstorm.windows.pane_aggregates`)."""
JOIN_MS: Final = 4000
"""Length of a window of the join."""
LAG_MS: Final = 10_000
"""The most that message times may diverge without any being late.

A restarted spout reads one partition after the other.
"""
LATE: Final = "late"
_FIELDS: Final = ("id", "at", "group", "side", "text")
_SCHEME: Final = SchemeAsMultiScheme(JsonScheme(*_FIELDS))


class Split(Function):
    """Emits a text's words."""

    def execute(self, tuple: Any, collector: Any) -> None:
        for word in _words(tuple["text"]):
            collector.emit([word if word != LARGE else word * (LARGE_BYTES // len(LARGE))])


class Windows(WindowedBolt):
    """Emits the content of each window."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The task, the window's bounds, the ids of its messages, and those of the new ones."""
        declarer.declare("task", "start", "end", "ids", "new")

    def prepare(self, config: Config, context: TopologyContext, collector: WindowCollector) -> None:
        super().prepare(config, context, collector)
        self._task = context.task_index

    def execute(self, window: TupleWindow) -> None:
        ids, new = [tuple["id"] for tuple in window], [tuple["id"] for tuple in window.new]
        self.collector.emit([self._task, window.start_timestamp, window.end_timestamp, ids, new])


class SpanAggregator(CombinerAggregator):
    """The number of messages, the sum of their ids' checksums, and their first and last time."""

    def init(self, tuple: Any) -> list[int]:
        return [1, crc32(tuple["id"].encode()), tuple["at"], tuple["at"]]

    def combine(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0], one[1] + other[1], min(one[2], other[2]), max(one[3], other[3])]

    def zero(self) -> list[int]:
        return [0, 0, 0, 0]


class EchoMapper:
    """Writes all fields of a tuple, and its source component and stream."""

    def get_key_from_tuple(self, tuple: Tuple) -> None:
        """Any partition will do."""

    def get_message_from_tuple(self, tuple: Tuple) -> bytes:
        """Return a JSON object."""
        return msgspec.json.encode(
            {"of": tuple.source_component, "stream": tuple.source_stream, **tuple.as_dict()}
        )


def topology() -> Topology:
    """Build the branches in the environment variable, by default all. Processed exactly once."""
    branches = os.environ.get(BRANCHES_VARIABLE, ",".join(BRANCHES)).split(",")
    config = Config(
        topology_message_timeout_secs=float(os.environ.get(TIMEOUT_VARIABLE, "12")),
        topology_acker_executors=1,
        topology_processing_guarantee=EXACTLY_ONCE,
        topology_bolt_retry_limit=RETRIES,
        topology_bolt_retry_delay_max_ms=1000.0,
    )
    streams = TridentTopology(NAME, config)
    source = TridentKafkaConfig(KafkaHosts(), SOURCE, scheme=_SCHEME)
    messages = streams.new_stream("messages", OpaqueTridentKafkaSpout(source)).parallelism_hint(
        1, 2
    )
    if TRIDENT in branches:
        _count(messages)
    if JOIN in branches:
        left, right = (_side(messages, side) for side in ("left", "right"))
        joined = streams.join(
            left, "group", right, "group", Fields("group", "left", "left_at", "right", "right_at")
        )
        joined.name("paired").parallelism_hint(1, 2)
    builder = _wired(streams.build())
    if WINDOW in branches:
        _add_windows(builder)
    if JOIN in branches:
        _add_join(builder)
    if WINDOW in branches or JOIN in branches:
        _add_told(builder, branches)
    return builder.build()


def _count(messages: Stream) -> None:
    words = messages.each(Fields("text"), Split(), Fields("word")).parallelism_hint(1, 3)
    counts = words.group_by(Fields("word")).persistent_aggregate(
        kstorm_state(), Count(), Fields("count")
    )
    counts.parallelism_hint(2, 4).new_values_stream().to_kafka(COUNTS, key="word")


def _side(messages: Stream, side: str) -> Stream:
    return (
        messages.filter(Fields("side", "text"), _of(side))
        .project("group", "id", "at")
        .name(side)
        .parallelism_hint(1, 2)
    )


def _of(side: str) -> Callable[[str, str], bool]:
    def keep(own: str, text: str) -> bool:
        _words(text)
        return own == side

    return keep


def _wired(built: Topology) -> TopologyBuilder:
    """Return a builder with Trident's components, to which more can be connected."""
    builder = TopologyBuilder(NAME, built.config)
    for spec in built.components.values():
        if spec.kind == "spout":
            builder.set_spout(spec.id, spec.component, spec.parallelism).set_num_tasks(  # type: ignore[arg-type]
                spec.num_tasks
            )
            continue
        bolt = builder.set_bolt(spec.id, spec.component, spec.parallelism).set_num_tasks(  # type: ignore[arg-type]
            spec.num_tasks
        )
        for each in spec.inputs:
            bolt.grouping(each.component, each.grouping, each.stream)
    return builder


def _add_windows(builder: TopologyBuilder) -> None:
    windows = (
        Windows()
        .with_window(Duration(LENGTH_MS), Duration(SLIDE_MS))
        .with_timestamp_extractor(_time)
    )
    windows.with_lag(Duration(LAG_MS)).with_late_tuple_stream(LATE)
    builder.set_bolt("windows", windows, 2).set_num_tasks(4).fields_grouping("messages", "group")
    many = Window(Duration(LENGTH_MS), Duration(SPAN_SLIDE_MS)).with_timestamp_extractor(_time)
    many.with_lag(Duration(LAG_MS)).with_late_tuple_stream(LATE)
    _, step = aggregate_step(
        SpanAggregator(), Fields("side"), Fields("id", "at"), Fields("span"), Fields(_FIELDS)
    )
    spans = window_bolt(many, step, Fields("side", "span"))
    builder.set_bolt("spans", spans).set_num_tasks(2).fields_grouping("messages", "side")


def _time(tuple: Tuple) -> int:
    """Return the event time of a message. Raises for a message with `!raise`."""
    _words(tuple["text"])
    at: int = tuple["at"]
    return at


def _add_join(builder: TopologyBuilder) -> None:
    joined = (
        JoinBolt("left", "group")
        .join("right", "group", "left")
        .select("left:group", "left:id", "right:id")
    )
    joined.with_tumbling_window(Duration(JOIN_MS)).with_timestamp_field("at").with_lag(
        Duration(LAG_MS)
    )
    joined.with_late_tuple_stream(LATE)
    bolt = builder.set_bolt("joined", joined).set_num_tasks(2)
    bolt.fields_grouping("left", "group").fields_grouping("right", "group")


def _add_told(builder: TopologyBuilder, branches: list[str]) -> None:
    told = builder.set_bolt(
        "told", KafkaBolt().with_topic_selector(TOLD).with_tuple_to_kafka_mapper(EchoMapper())
    )
    told.set_num_tasks(2)
    for component in ["windows", "spans"] * (WINDOW in branches) + ["joined"] * (JOIN in branches):
        told.shuffle_grouping(component).shuffle_grouping(component, LATE)
    if JOIN in branches:
        told.shuffle_grouping("paired")


def _words(text: str) -> list[str]:
    words = text.split()
    if RAISE in words:
        raise ValueError(f"{text!r} says {RAISE}")
    return words
