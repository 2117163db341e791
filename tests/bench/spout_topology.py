"""The topology of `./run bench spout`: a KafkaSpout that measures its CPU time, and its consumer.

Only steps that run once per batch are timed. Reading the clock for each message would cost as much
as the measured work. The spout takes the figures itself, at two given messages, because a fast
spout can hardly be measured from outside.
"""

import os
import time
from collections.abc import Sequence
from typing import Any, Final

from kstorm.kafka import KafkaHosts, KafkaSpout, SchemeAsMultiScheme, SpoutConfig, StringScheme
from kstorm.kafka.ports import SourceMessage
from kstorm.topology import (
    DEFAULT_STREAM,
    Config,
    Placed,
    SpoutOutputCollector,
    Topology,
    TopologyBuilder,
    TopologyContext,
)
from tests.bench.inprocess import Swallow

REFERENCE: Final = "tests.bench.spout_topology:topology"
NAME, TOPIC, ACKERS, MESSAGES = (
    f"BENCH_SPOUT_{name}" for name in ("NAME", "TOPIC", "ACKERS", "MESSAGES")
)
"""Environment variables for the processes."""
FROM, TO = 0.25, 0.95
"""The measured part of the messages, without start and tail."""


class MeasuredSpout(KafkaSpout):
    """A KafkaSpout whose `metrics` are CPU seconds of its process and parts of its main thread."""

    def __init__(self, config: SpoutConfig, messages: int) -> None:
        super().__init__(config)
        self._marks = [TO * messages, FROM * messages]
        self._emitted = 0
        self._consuming = self._emitting = self._working = 0.0
        self._taken: list[dict[str, float]] = []

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Wrap the source's `read` and the collector's `emit_batch`."""
        super().open(config, context, collector)
        read, emit_batch = self._source.read, collector.emit_batch

        def timed_read(max_messages: int) -> Sequence[SourceMessage]:
            began = time.thread_time()
            found = read(max_messages)
            self._consuming += time.thread_time() - began
            return found

        def timed_emit(
            columns: Sequence[list[Any]],
            message_ids: Sequence[Any] | None = None,
            stream: str = DEFAULT_STREAM,
        ) -> Placed:
            began = time.thread_time()
            placed = emit_batch(columns, message_ids, stream)
            self._emitting += time.thread_time() - began
            self._emitted += len(columns[0])
            return placed

        source: Any = self._source
        timed: Any = collector
        source.read, timed.emit_batch = timed_read, timed_emit

    def next_tuple(self) -> None:
        began = time.thread_time()
        super().next_tuple()
        self._working += time.thread_time() - began
        if self._marks and self._emitted >= self._marks[-1]:
            self._marks.pop()
            self._taken.append(self._now())

    def metrics(self) -> dict[str, float]:
        """Return `messages` and CPU seconds between the two marks. Empty before the second."""
        if self._marks:
            return {}
        begin, end = self._taken
        return {name: end[name] - begin[name] for name in end}

    def _now(self) -> dict[str, float]:
        return {
            "messages": self._emitted,
            "process": time.process_time(),
            "main_thread": time.thread_time(),
            "next_tuple": self._working,
            "consume": self._consuming,
            "emit": self._emitting,
        }


def build(name: str, topic: str, ackers: int, messages: int) -> Topology:
    """Build a spout and a bolt that acks, one task each. With `ackers` = 0 nothing is tracked."""
    config = Config(topology_acker_executors=ackers, topology_max_spout_pending=20_000)
    builder = TopologyBuilder(name, config)
    scheme = SchemeAsMultiScheme(StringScheme())
    config_of_spout = SpoutConfig(KafkaHosts(), topic, "/kstorm", name, scheme=scheme)
    builder.set_spout("spout", MeasuredSpout(config_of_spout, messages))
    builder.set_bolt("swallow", Swallow()).shuffle_grouping("spout")
    return builder.build()


def topology() -> Topology:
    return build(
        os.environ[NAME], os.environ[TOPIC], int(os.environ[ACKERS]), int(os.environ[MESSAGES])
    )
