"""`kstorm prepare`, `probe`, `produce` and `consume` on a real Kafka, as the chart and its notes
run them."""

import io
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from kstorm.dev.servers import EmbeddedKafka
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import create_topic
from tests.conftest import Eventually
from tests.kstorm_command import Command, run_kstorm

TOPOLOGY = """
from kstorm.kafka import (
    FieldNameBasedTupleToKafkaMapper, KafkaBolt, KafkaHosts, KafkaSpout, SpoutConfig
)
from kstorm.topology import TopologyBuilder

def build(tasks):
    builder = TopologyBuilder("{name}")
    builder.set_spout("lines", KafkaSpout(SpoutConfig(KafkaHosts(), "{name}-in", "/kstorm", "{name}")))
    sink = KafkaBolt().with_tuple_to_kafka_mapper(FieldNameBasedTupleToKafkaMapper("key", "bytes"))
    builder.set_bolt("sink", sink.with_topic_selector("{name}-out")).set_num_tasks(tasks).shuffle_grouping("lines")
    return builder.build()

four, six = build(4), build(6)
"""


@pytest.fixture
def kstorm(
    kafka: EmbeddedKafka,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """A function that runs a command in a pod's environment, for a topology."""
    module = f"prepared_{topic_prefix.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(TOPOLOGY.replace("{name}", topic_prefix))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", kafka.bootstrap)

    def run(attribute: str, *arguments: str) -> tuple[object, str, str]:
        monkeypatch.setenv("KSTORM_TOPOLOGY", f"{module}:{attribute}")
        return run_kstorm(capsys, *arguments)

    return run


def partitions(kafka: EmbeddedKafka, topics: Iterable[str]) -> dict[str, int]:
    """Return the partition counts of the existing topics."""
    found = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=20).topics
    return {name: len(found[name].partitions) for name in topics if name in found}


def make_topic(kafka: EmbeddedKafka, topic: str, count: int, eventually: Eventually) -> None:
    """Create a topic and wait until the broker knows it."""
    create_topic(Settings(topology="", bootstrap_servers=kafka.bootstrap), topic, count)
    eventually(lambda: partitions(kafka, [topic]) == {topic: count}, 20)


def test_prepare_creates_the_topics_once(
    kstorm: Command, kafka: EmbeddedKafka, topic_prefix: str, eventually: Eventually
) -> None:
    """On request it creates source and sink. The second call finds all topics."""
    code, shown, _ = kstorm("four", "prepare", "--ends", "3")
    assert code == 0
    assert (
        f"created {topic_prefix}-in with 3 partitions\ncreated {topic_prefix}-out with 3 partitions\n"
        in shown
    )
    wanted = {
        f"{topic_prefix}.sink": 4,
        f"{topic_prefix}.__acker": 4,
        f"{topic_prefix}-in": 3,
        f"{topic_prefix}-out": 3,
    }
    eventually(lambda: partitions(kafka, wanted) == wanted, 20)
    assert kstorm("four", "prepare", "--ends", "3") == (
        0,
        f"{topic_prefix}: created no topic, all exist\n",
        "",
    )


def test_prepare_refuses_another_task_count(kstorm: Command, topic_prefix: str) -> None:
    """The error has both numbers. `helm upgrade` must not change the count."""
    assert kstorm("four", "prepare", "--ends", "1")[0] == 0
    code, _, complaint = kstorm("six", "prepare")
    assert code == 2
    assert (
        f"topic '{topic_prefix}.sink' has 4 partitions, but topology '{topic_prefix}' has 6 tasks there"
        in complaint
    )


@pytest.mark.slow
def test_missing_source_and_sink_are_refused(
    kstorm: Command, kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """There is one line per topic, exit code 2, and no new topic.

    On request the command continues.
    """
    nothing = f"but Kafka at {kafka.bootstrap} has no such topic: create it, or correct the name"
    reads = f"the spout 'lines' reads the topic '{topic_prefix}-in', {nothing}"
    writes = f"the bolt 'sink' writes the topic '{topic_prefix}-out', {nothing}"
    hint = "to start anyway: --allow-missing-ends, or in the chart prepare.allowMissingEnds=true"
    code, shown, complaint = kstorm("four", "prepare", "--wait", "1000")
    assert (code, shown) == (2, "")
    assert complaint.splitlines() == [f"kstorm: {reads}", f"kstorm: {writes}", f"kstorm: {hint}"]
    own = f"{topic_prefix}.sink"
    assert partitions(kafka, [own]) == {}
    code, shown, _ = kstorm("four", "prepare", "--allow-missing-ends")
    assert code == 0
    assert shown.splitlines()[1:] == [f"warning: {reads}", f"warning: {writes}"]
    assert partitions(kafka, [own]) == {own: 4}


@pytest.mark.slow
def test_existing_source_and_sink_are_accepted(
    kstorm: Command, kafka: EmbeddedKafka, topic_prefix: str, eventually: Eventually
) -> None:
    for end in ("in", "out"):
        make_topic(kafka, f"{topic_prefix}-{end}", 1, eventually)
    code, shown, complaint = kstorm("four", "prepare")
    assert (code, len(shown.splitlines()), complaint) == (0, 1, "")


def test_probe_waits_for_its_message_in_the_sink(
    kstorm: Command, kafka: EmbeddedKafka, topic_prefix: str, eventually: Eventually
) -> None:
    """It ignores other messages."""
    kstorm("four", "prepare", "--ends", "2")
    ends = [f"{topic_prefix}-in", f"{topic_prefix}-out"]
    eventually(lambda: len(partitions(kafka, ends)) == 2, 20)
    client = {"bootstrap.servers": kafka.bootstrap}
    reader = Consumer({**client, "group.id": topic_prefix, "auto.offset.reset": "earliest"})
    reader.subscribe(ends[:1])

    def answer() -> None:
        deadline = time.monotonic() + 60
        while (record := reader.poll(0.1)) is None or record.error():
            assert time.monotonic() < deadline, "nothing was sent"
        producer = Producer(client)
        producer.produce(f"{topic_prefix}-out", b"another")
        producer.produce(f"{topic_prefix}-out", b"seen: " + (record.value() or b""))
        producer.flush(20)

    answering = threading.Thread(target=answer, daemon=True)
    answering.start()
    code, shown, complaint = kstorm("four", "probe", "--source", ends[0], "--sink", ends[1])
    answering.join()
    reader.close()
    assert (code, complaint) == (0, "")
    assert shown.startswith(f"{topic_prefix}-in → {topic_prefix}-out[")


@pytest.mark.slow
def test_probe_names_a_missing_result(
    kstorm: Command, kafka: EmbeddedKafka, topic_prefix: str, eventually: Eventually
) -> None:
    """The error comes after its timeout, or at once if the topic does not exist."""
    settings = Settings(topology="", bootstrap_servers=kafka.bootstrap)
    ends = ("--source", f"{topic_prefix}-in", "--sink", f"{topic_prefix}-out")
    code, _, complaint = kstorm("four", "probe", *ends)
    assert (code, f"no topic '{topic_prefix}-out'" in complaint) == (2, True)
    for name in ends[1::2]:
        create_topic(settings, name, 1)
    eventually(lambda: len(partitions(kafka, ends[1::2])) == 2, 20)
    code, _, complaint = kstorm("four", "probe", *ends, "--timeout", "0.5")
    assert (
        code,
        f"had no result in '{topic_prefix}-out' within 0.5 s; 0 other records" in complaint,
    ) == (2, True)


@pytest.mark.slow
def test_probe_names_missing_topics_and_tasks(kstorm: Command, topic_prefix: str) -> None:
    code, _, complaint = kstorm("four", "probe")
    assert code == 2
    assert (
        f"kstorm: the topology '{topic_prefix}' has no topic '{topic_prefix}.sink' at " in complaint
    )
    assert (
        f"kstorm: the spout 'lines' reads the topic '{topic_prefix}-in', but Kafka at " in complaint
    )
    kstorm("four", "prepare", "--ends", "1")
    code, _, complaint = kstorm("four", "probe", "--timeout", "0.5")
    assert code == 2
    assert (
        "have no process after 0.5 s: lines [0]; sink [0, 1, 2, 3]; __acker [0, 1, 2, 3]; check the pods"
        in complaint
    )


@pytest.mark.slow
def test_produced_messages_can_be_consumed(
    kstorm: Command,
    kafka: EmbeddedKafka,
    topic_prefix: str,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every non-empty line is a message, with any bytes.

    The output has a line per record, or only the last ones.
    """
    topic = f"{topic_prefix}-in"
    make_topic(kafka, topic, 2, eventually)
    assert kstorm("four", "consume", topic) == (0, "", "")
    typed = b"the cow\n\n  jumped \n\xff\n" + b"over\n" * 9
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    assert kstorm("four", "produce", topic) == (0, "", "")
    code, shown, complaint = kstorm("four", "consume", topic)
    assert (code, complaint) == (0, "")
    assert sorted(shown.splitlines()) == sorted(
        ["\tthe cow", "\tjumped", "\t\ufffd", *["\tover"] * 9]
    )
    last = kstorm("four", "consume", topic, "--tail", "1", "--bootstrap", kafka.bootstrap)[
        1
    ].splitlines()
    assert len(last) in (1, 2)
    assert set(last) <= set(shown.splitlines())


@pytest.mark.slow
def test_consume_follows_a_topic_until_ctrl_c(
    kstorm: Command,
    kafka: EmbeddedKafka,
    topic_prefix: str,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = f"{topic_prefix}-out"
    make_topic(kafka, topic, 1, eventually)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    class Screen(io.StringIO):
        def flush(self) -> None:
            if "moon" in self.getvalue():
                raise KeyboardInterrupt
            producer.produce(topic, b"moon", key=b"cow")
            producer.flush(20)

    screen = Screen()
    monkeypatch.setattr("kstorm.cli.consume.sys", SimpleNamespace(stdout=screen))
    assert kstorm("four", "consume", topic, "--follow")[0] == 0
    assert "cow\tmoon\n" in screen.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_missing_topic_is_not_created(kstorm: Command, topic_prefix: str, verb: str) -> None:
    code, _, complaint = kstorm("four", verb, topic_prefix)
    assert code == 2
    assert complaint.endswith(f"has no topic '{topic_prefix}': create it, or give another topic\n")
