"""Windows under the simulator's faults: with exactly once, each tuple is in its window once."""

import json
from collections import Counter
from collections.abc import Iterator

from kstorm.kafka import KafkaBolt
from kstorm.testing import FeederSpout, simulate
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import Config, Fields, OutputFieldsDeclarer, Topology, TopologyBuilder, Tuple
from kstorm.windows import Duration, TupleWindow, WindowedBolt

KEYS = ("a", "b", "c")
INPUT = [[key, number, (number * 7) % 50] for number in range(40) for key in KEYS[number % 3]]
CLOSING = [[key, -1, 1000] for key in KEYS]


class Numbers(WindowedBolt):
    """Emits the numbers of a window."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares the fields of a record."""
        declarer.declare("key", "message")

    def execute(self, window: TupleWindow) -> None:
        numbers = [tuple["n"] for tuple in window]
        self.collector.emit(
            [f"{window.end_timestamp}", json.dumps([window.end_timestamp, numbers])]
        )


def build() -> Topology:
    """Builds keyed numbers, windows of 10 ms, and a stream of late tuples."""
    builder = TopologyBuilder("windows", Config(topology_processing_guarantee="exactly_once"))
    builder.set_spout("in", FeederSpout("key", "n", "ts"))
    bolt = (
        Numbers()
        .with_tumbling_window(Duration(10))
        .with_timestamp_field("ts")
        .with_lag(Duration(20))
    )
    windows = builder.set_bolt("windows", bolt.with_late_tuple_stream("late"), 2).set_num_tasks(2)
    windows.fields_grouping("in", Fields("key"))
    builder.set_bolt("sink", KafkaBolt().with_topic_selector("windows")).shuffle_grouping("windows")
    late = KafkaBolt().with_topic_selector("late").with_tuple_to_kafka_mapper(Late())
    builder.set_bolt("too-late", late).shuffle_grouping("windows", "late")
    return builder.build()


class Late:
    """Maps a late tuple to its number."""

    def get_key_from_tuple(self, tuple: Tuple) -> None:
        """Returns no key."""

    def get_message_from_tuple(self, tuple: Tuple) -> str:
        """Returns JSON."""
        return json.dumps(tuple["late_tuple"]["values"]["n"])


def numbers(kafka: FakeKafka) -> Iterator[int]:
    """Returns the numbers in their windows, or late."""
    ts = {number: at for _, number, at in INPUT}
    for record in kafka.records("windows"):
        end, found = json.loads(record.value() or b"")
        assert all(end - 10 < ts[number] <= end for number in found)
        yield from found
    for record in kafka.records("late"):
        yield json.loads(record.value() or b"")


def test_each_tuple_is_in_one_window_or_late() -> None:
    """This holds despite kills, moves and refusals."""

    def judge(cluster: KafkaCluster) -> None:
        cluster.advance_time(10)
        cluster.checkpoint()
        assert Counter(numbers(cluster.kafka)) == Counter(number for _, number, _ in INPUT)

    def kafka() -> FakeKafka:
        return FakeKafka({"windows": 1, "late": 1})

    report = simulate(build(), {"in": [*INPUT, *CLOSING]}, judge, range(4, 15), kafka=kafka)
    assert sum(report.in_flight.values()) > 50


class RaisesOnce(Numbers):
    """Raises on its second window."""

    def execute(self, window: TupleWindow) -> None:
        """Emits first."""
        super().execute(window)
        seen = self.context.resources["seen"]
        seen.append(window.end_timestamp)
        if len(seen) == 2:
            raise ValueError("once")


def test_failed_window_is_shown_again() -> None:
    """Its emits were undone, so the whole window is shown again, from the stored state."""
    builder = TopologyBuilder("windows", Config(topology_processing_guarantee="exactly_once"))
    builder.set_spout("in", FeederSpout("n", "ts"))
    bolt = RaisesOnce().with_tumbling_window(Duration(10)).with_timestamp_field("ts")
    builder.set_bolt("windows", bolt).shuffle_grouping("in")
    builder.set_bolt("sink", KafkaBolt().with_topic_selector("out")).shuffle_grouping("windows")
    kafka, seen = FakeKafka({"out": 1}), list[int]()
    with kafka.cluster(builder.build(), resources={"seen": seen}) as cluster:
        feeder = cluster.topology.component("in").component
        assert isinstance(feeder, FeederSpout)
        for number in (5, 15, 25, 35):
            feeder.feed([number, number])
        cluster.run_until_idle()
        cluster.advance_time(5)
        cluster.checkpoint()
    assert seen == [10, 20, 10, 20, 30]
    assert [json.loads(record.value() or b"") for record in kafka.records("out")] == [
        [10, [5]],
        [20, [15]],
        [30, [25]],
    ]
