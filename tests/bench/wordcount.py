"""Word count in the peers' formats.

It turns `<id> word word …` into records with key=word, value=`<running count> <id>`. It uses the
ordinary API and services. Names and sizes come from the environment, because the services load the
topology by its path. The counts are in a dict in memory, as in Storm's own example. With
`KSTORM_STATE=1` they are in the bolt's state, as in Kafka Streams. All tuples are tracked.
"""

import os
from itertools import repeat

from kstorm.kafka import (
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    Fields,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    TupleBatch,
)
from kstorm.topology.config import AT_LEAST_ONCE


class Split(BasicBolt):
    """Splits a sentence into words, each with the sentence's id."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "id")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        ident, *words = tuple.values[0].split()
        for word in words:
            collector.emit((word, ident))

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        words: list[str] = []
        idents: list[str] = []
        positions: list[int] = []
        for position, sentence in enumerate(batch[0]):
            ident, *found = sentence.split()
            words += found
            idents += repeat(ident, len(found))
            positions += repeat(position, len(found))
        collector.emit_batch((words, idents), positions)


class Count(BasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key and message of the record to write."""
        declarer.declare("key", "message")

    def prepare(self, config: Config, context: TopologyContext) -> None:
        super().prepare(config, context)
        self.counts: dict[str, int] = {}

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        word, ident = tuple.values
        count = self.counts[word] = self.counts.get(word, 0) + 1
        collector.emit((word, f"{count} {ident}"))

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        counts, messages = self.counts, []
        for word, ident in batch.rows():
            count = counts[word] = counts.get(word, 0) + 1
            messages.append(f"{count} {ident}")
        collector.emit_batch((batch[0], messages))


class CountInState(StatefulBasicBolt):
    """`Count` with the counts in the bolt's state."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        word, ident = tuple.values
        count = self.state.get(word, 0) + 1
        self.state.put(word, count)
        collector.emit((word, f"{count} {ident}"))

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        """Count many words at once. Each word is put once."""
        get, counts, messages = self.state.get, dict[str, int](), []
        for word, ident in batch.rows():
            count = counts[word] = (counts[word] if word in counts else get(word, 0)) + 1
            messages.append(f"{count} {ident}")
        for word, count in counts.items():
            self.state.put(word, count)
        collector.emit_batch((batch[0], messages))


def topology_name(run: str) -> str:
    """Return the topology's name for a run.

    It is not the run's own name: the peers' benchmark assumes that every topic with that name has
    twelve partitions.
    """
    return f"kstorm-{run.removeprefix('run')}"


def config(*, in_state: bool) -> Config:
    """Return the configuration for a benchmark's topology: see `topology`."""
    return Config(
        topology_processing_guarantee=os.environ.get("KSTORM_GUARANTEE", AT_LEAST_ONCE).replace(
            "-", "_"
        ),
        topology_epoch_interval_ms=int(os.environ.get("KSTORM_EPOCH_MS", "100")),
        topology_acker_executors=int(os.environ.get("KSTORM_ACKERS", "1")),
        topology_acker_tasks=int(os.environ.get("KSTORM_ACKER_TASKS", "1")),
        topology_max_spout_pending=int(
            os.environ.get("KSTORM_PENDING", "60000" if in_state else "20000")
        ),
    )


def topology() -> Topology:
    """The topology that the services of one measurement load, configured by the environment:

    - `KSTORM_PROCESSES` and `KSTORM_TASKS`: per component, by default one each.
    - `KSTORM_ACKERS=0` tracks nothing.
    - `KSTORM_STATE=1` keeps the counts in the state.
    - `KSTORM_GUARANTEE=exactly-once` counts each sentence once, in epochs of `KSTORM_EPOCH_MS`.
    - `KSTORM_PENDING`: sentences in flight. The default is 20,000, or 60,000 with state, because an
      epoch takes its time at each hop.
    """
    source, sink = os.environ["PEER_IN"], os.environ["PEER_OUT"]
    name = topology_name(os.environ["PEER_RUN"])
    processes = int(os.environ.get("KSTORM_PROCESSES", "1"))
    tasks = max(processes, int(os.environ.get("KSTORM_TASKS", "1")))
    in_state = os.environ.get("KSTORM_STATE") == "1"
    count = CountInState() if in_state else Count()
    builder = TopologyBuilder(name, config(in_state=in_state))
    spout = KafkaSpout(
        SpoutConfig(
            KafkaHosts(), source, "/kstorm", name, scheme=SchemeAsMultiScheme(StringScheme())
        )
    )
    builder.set_spout("sentences", spout, processes).set_num_tasks(tasks)
    builder.set_bolt("split", Split(), processes).set_num_tasks(tasks).shuffle_grouping("sentences")
    builder.set_bolt("count", count, processes).set_num_tasks(tasks).fields_grouping(
        "split", Fields("word")
    )
    write = builder.set_bolt(
        "sink", KafkaBolt().with_topic_selector(sink), processes
    ).set_num_tasks(tasks)
    write.fields_grouping("count", Fields("key"))
    return builder.build()
