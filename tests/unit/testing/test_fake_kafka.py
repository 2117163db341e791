"""`FakeKafka` under whole topologies, with the faults that real servers cause."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from kstorm.errors import KstormError
from kstorm.kafka import (
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.kafka.config import ProcessingGuarantee
from kstorm.kafka.finished_ranges import decode_range
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    FailedException,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)

SEEDS = range(5)


class Upper(BasicBolt):
    """Writes lines in capitals. A line that contains an order to fail, fails once."""

    failed: set[str]

    def __init__(self) -> None:
        self.failed = set()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        line = tuple["str"]
        if line.startswith("fail") and line not in self.failed:
            self.failed.add(line)
            raise FailedException
        collector.emit([line, line.upper()])


def config(topic: str = "lines", **settings: Any) -> SpoutConfig:
    hosts = settings.pop("hosts", KafkaHosts())
    settings.setdefault("retry_initial_delay_ms", 0)
    return SpoutConfig(
        hosts, topic, "/spouts", "t", scheme=SchemeAsMultiScheme(StringScheme()), **settings
    )


def wired(source: SpoutConfig, bolt: KafkaBolt | None = None, tasks: int = 1) -> Topology:
    builder = TopologyBuilder("t", Config(topology_message_timeout_secs=10))
    builder.set_spout("lines", KafkaSpout(source), tasks)
    builder.set_bolt("upper", Upper()).shuffle_grouping("lines")
    sink = bolt or KafkaBolt()
    builder.set_bolt("sink", sink.with_topic_selector("out")).shuffle_grouping("upper")
    return builder.build()


def produced(*lines: str, partitions: int = 2) -> FakeKafka:
    kafka = FakeKafka({"lines": partitions, "out": 2})
    for line in lines:
        kafka.produce("lines", line)
    return kafka


def out(kafka: FakeKafka) -> Counter[str]:
    return Counter((record.value() or b"").decode() for record in kafka.records("out"))


@pytest.mark.parametrize("seed", SEEDS)
def test_from_topic_to_topic(seed: int) -> None:
    """Each message is written and acked, and its offset is stored at the next interval."""
    kafka = produced("a", "b", "c")
    source = config()
    with kafka.cluster(wired(source), seed) as cluster:
        cluster.run_until_idle()
        assert out(kafka) == {"A": 1, "B": 1, "C": 1}
        assert len(cluster.acked("lines")) == 3
        assert (cluster.pending, cluster.errors) == (0, [])
        assert not any(kafka.stored_offset(source, number) for number in (0, 1))
        cluster.advance_time(2.5)
        assert [kafka.stored_offset(source, number) for number in (0, 1)] == [2, 1]
        kafka.produce("lines", "d", partition=1)
        cluster.run_until_idle()
        assert out(kafka)["D"] == 1
    assert [kafka.stored_offset(source, number) for number in (0, 1)] == [2, 2]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("victim", ["lines", "upper", "sink", "acker"])
def test_nothing_is_lost_by_a_crash(seed: int, victim: str) -> None:
    """A crash in the middle replays records in flight. Stored offsets count."""
    lines = [f"line {number}" for number in range(20)]
    kafka, source = produced(*lines), config()
    with kafka.cluster(wired(source, tasks=2), seed) as cluster:
        for _ in range(20 + 15 * seed):
            cluster.step()
        cluster.crash(victim)
        cluster.advance_time(40)
        assert set(out(kafka)) == {line.upper() for line in lines}
        assert (cluster.pending, cluster.dead_letters) == (0, [])
        assert [kafka.stored_offset(source, number) for number in (0, 1)] == [10, 10]


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_lost_among_faults(seed: int) -> None:
    """Under random faults, every line is written, and the offsets end after the last one."""
    random = Random(seed)
    lines = [f"line {number}" for number in range(random.randint(1, 30))]
    kafka = produced(*lines, partitions=3)
    source = config(max_uncommitted_offsets=random.choice((1, 4, 1000)), state_update_interval_ms=1)
    with kafka.cluster(wired(source, tasks=random.randint(1, 3)), seed) as cluster:
        for _ in range(random.randint(1, 4)):
            for _ in range(random.randint(1, 60)):
                cluster.step()
            victim, seconds = (
                random.choice(("lines", "upper", "sink", "acker")),
                random.randint(1, 12),
            )
            match random.randrange(5):
                case 0 | 1:
                    cluster.crash(victim)
                case 2:
                    cluster.pause(victim)
                case 3:
                    cluster.scale("lines", random.randint(1, 3))
                case _:
                    kafka.away = True
                    cluster.advance_time(seconds)
                    kafka.away = False
        cluster.advance_time(60)
        assert set(out(kafka)) == {line.upper() for line in lines}
        assert (cluster.pending, cluster.dead_letters) == (0, [])
        assert sum(kafka.stored_offset(source, number) or 0 for number in range(3)) == len(lines)


def test_a_crash_repeats_what_was_not_stored() -> None:
    """Messages below the stored offset are not repeated."""
    kafka, source = produced("a", "b", partitions=1), config()
    with kafka.cluster(wired(source)) as cluster:
        cluster.advance_time(3)
        kafka.produce("lines", "c")
        cluster.run_until_idle()
        assert kafka.stored_offset(source) == 2
        cluster.crash("lines")
        cluster.run_until_idle()
        assert out(kafka) == {"A": 1, "B": 1, "C": 2}


@pytest.mark.parametrize("forgets", [False, True])
def test_a_crash_loses_what_the_producer_held(forgets: bool) -> None:
    """The record is written again, even if its tuple was acked at once.

    A frame's offset waits for the records of sinks, so the bolt executes the frame again.
    """
    kafka = produced("a", partitions=1)
    with kafka.cluster(wired(config(), KafkaBolt().with_fire_and_forget(forgets))) as cluster:
        while not cluster.emitted("upper"):
            cluster.step()
        kafka.away = True  # delays the record
        cluster.run_until_idle()
        cluster.checkpoint()
        cluster.crash("sink", 0)
        kafka.away = False
        cluster.advance_time(40)
        assert len(cluster.acked("lines")) == 1
        assert out(kafka) == {"A": 1}


def test_a_zombie_is_fenced() -> None:
    """A spout that is assumed dead stores nothing after another process has its lock."""
    kafka, source = produced("a", partitions=1), config()
    with kafka.cluster(wired(source)) as cluster:
        cluster.advance_time(3)
        for number in range(10):
            kafka.produce("lines", str(number))
            cluster.step()
        cluster.pause("lines")
        cluster.advance_time(40)
        assert set(out(kafka)) == {"A", *map(str, range(10))}
        assert kafka.stored_offset(source) == 11


def test_a_scaled_spout_hands_its_partitions_over() -> None:
    """The old task releases the locks, and the new one takes them."""
    kafka, source = produced(*map(str, range(6))), config()
    with kafka.cluster(wired(source, tasks=2)) as cluster:
        cluster.run_until_idle()
        cluster.scale("lines", 1)
        cluster.run_until_idle()
        for number in range(6, 10):
            kafka.produce("lines", str(number))
        cluster.advance_time(5)
        assert out(kafka) == Counter(map(str, range(10)))
        assert [kafka.stored_offset(source, number) for number in (0, 1)] == [5, 5]


def test_a_record_that_the_broker_refuses() -> None:
    """Its tuple fails, and is replayed until the broker accepts the record."""
    kafka, source = produced("a", "b", partitions=1), config()
    kafka.refuse = lambda topic, key, value: (
        "quota exceeded" if (topic, value) == ("out", b"B") else None
    )
    with kafka.cluster(wired(source)) as cluster:
        with pytest.raises(KstormError, match="is not idle after 5000 steps"):
            cluster.run_until_idle(5000)
        assert set(out(kafka)) == {
            "A"
        }  # perhaps twice: it is written again with the refused ones next to it
        assert "quota exceeded" in str(cluster.errors[0].error)
        assert len(cluster.failed("lines")) > 1
        kafka.refuse = lambda topic, key, value: None
        cluster.advance_time(3)
        assert out(kafka)["B"] == 1
        assert kafka.stored_offset(source) == 2


@pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
@pytest.mark.parametrize("exactly", [False, True])
def test_offsets_step_over_what_no_reader_sees(
    guarantee: ProcessingGuarantee, exactly: bool
) -> None:
    """These are markers and aborted records, between messages and at the end.

    The finished ranges report them as absent.
    """
    if exactly and guarantee is not ProcessingGuarantee.AT_LEAST_ONCE:
        pytest.skip("build refuses this")
    kafka = FakeKafka({"lines": 1, "out": 1})
    source = config(processing_guarantee=guarantee)
    builder = TopologyBuilder(
        "t", Config(topology_processing_guarantee="exactly_once" if exactly else "at_least_once")
    )
    builder.set_spout("lines", KafkaSpout(source))
    builder.set_bolt("upper", Upper()).shuffle_grouping("lines")
    kafka.produce("lines", "a")
    kafka.produce_unseen("lines", 3)
    kafka.produce("lines", "b")
    kafka.produce_unseen("lines", 1000)
    with kafka.cluster(builder.build()) as cluster:
        cluster.advance_time(10)
        assert sorted(values[0] for values in cluster.emitted("upper")) == ["a", "b"]
        assert kafka.stored_offset(source) == 1005
        kafka.produce_unseen("lines", 2)
        cluster.advance_time(10)
        assert kafka.stored_offset(source) == 1007
        kafka.produce("lines", "c")
        cluster.advance_time(10)
        assert [values[0] for values in cluster.emitted("upper")][-1] == "c"
        assert kafka.stored_offset(source) == 1008
    ranges = [decode_range(record.value() or b"") for record in kafka.records("t.__finished")]
    if guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        assert sum(own.n.get("absent", 0) for own in ranges) == 1005
    assert sorted((own.start, own.end) for own in ranges)[-1][1] == 1008
