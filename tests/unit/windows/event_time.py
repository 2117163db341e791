"""Clicks in four partitions, at most 8 s out of order, and their sessions with a lag of 10 s."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from kstorm.kafka import JsonScheme, KafkaHosts, KafkaSpout, SchemeAsMultiScheme, SpoutConfig
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    Fields,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.windows import Duration, TupleWindow, WindowedBolt

PARTITIONS = 4
GUARANTEES = ("at_least_once", "exactly_once")
END = 10_000_000
"""A time after all clicks and their sessions."""


class Visits(WindowedBolt):
    """Emits the user, the first and last time, and the numbers of a session."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("user", "first", "last", "numbers")

    def execute(self, window: TupleWindow) -> None:
        numbers = sorted(tuple["n"] for tuple in window)
        self.collector.emit([*window.key, window.start_timestamp, window.end_timestamp, numbers])


def sessions() -> WindowedBolt:
    return (
        Visits()
        .with_session_window(Duration.seconds(30), "user")
        .with_timestamp_field("at")
        .with_lag(Duration.seconds(10))
        .with_late_tuple_stream("late")
    )


class Pass(BasicBolt):
    """Emits its input."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("user", "at", "n")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(list(tuple.values))


def clicks_topology(
    guarantee: str = "at_least_once",
    parse: bool = False,
    change: Callable[[WindowedBolt], Any] = lambda bolt: bolt,
    spout_tasks: int = 2,
    **spout: Any,
) -> Topology:
    """Builds clicks, optionally a bolt in between, and sessions, with two tasks each."""
    config = Config(topology_processing_guarantee=guarantee, topology_message_timeout_secs=10)
    builder = TopologyBuilder("clicks", config)
    scheme = SchemeAsMultiScheme(JsonScheme("user", "at", "n"))
    builder.set_spout(
        "clicks",
        KafkaSpout(SpoutConfig(KafkaHosts(), "clicks", "", "c", scheme=scheme, **spout)),
        spout_tasks,
    )
    if parse:
        builder.set_bolt("parse", Pass(), 2).shuffle_grouping("clicks")
    source = "parse" if parse else "clicks"
    builder.set_bolt("visits", change(sessions()), 2).fields_grouping(source, Fields("user"))
    return builder.build()


def click(kafka: FakeKafka, partition: int, number: int, at: int, user: str = "") -> None:
    value = json.dumps({"user": user or f"user{number % 7}", "at": at, "n": number})
    kafka.produce("clicks", value, partition=partition)


def backlog(kafka: FakeKafka, chance: Random, messages: int, start: int = 0) -> None:
    """Write clicks in order of time, at most 8 s out of order."""
    for number in range(start, start + messages):
        at = number * 250 - chance.randint(0, 8000) + 100_000
        click(kafka, chance.randrange(PARTITIONS), number, at)


def close(kafka: FakeKafka, last: int = END) -> None:
    """Write a click to each partition that ends all other sessions."""
    for partition in range(PARTITIONS):
        click(kafka, partition, -1, last, "end")


def late(cluster: LocalCluster) -> list[int]:
    """Return the numbers of the late clicks."""
    return [found["values"]["n"] for (found,) in cluster.emitted("visits", "late")]


def shown(cluster: LocalCluster) -> set[int]:
    """Return the numbers of the clicks in sessions."""
    return {number for *_, numbers in cluster.emitted("visits") for number in numbers}


def work(cluster: LocalCluster, seconds: int) -> None:
    """Let time pass while the processes have more work than they can do."""
    for _ in range(seconds):
        for _ in range(100):
            cluster.step()
        cluster.advance_time(1, run=False)


def settle(cluster: LocalCluster, seconds: float = 30) -> None:
    """Let the watermark advance."""
    cluster.advance_time(seconds)
    cluster.checkpoint()
