"""`kstorm dlq replay --mode produce` on a real Kafka: the copies, their headers, and the rejected
letters."""

import json
import sys
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from kstorm.cli.__main__ import main
from kstorm.core.dead_letters import encode_letter
from kstorm.dev.servers import EmbeddedKafka
from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.kafka.replay_requests import ReplayRequest, encode_request
from kstorm.operations.letters import copying
from kstorm.operations.letters.reading import read_letters
from kstorm.runtime.kafka.raw_writer import RawMessage
from kstorm.runtime.kafka.single_partition_topic import write_topic
from kstorm.testing import FeederSpout
from kstorm.topology import Config, Topology, TopologyBuilder
from tests.integration.dead_letters import SECRET, Letters
from tests.integration.engine import make_topics
from tests.kstorm_command import Command, run_kstorm


@pytest.fixture
def source(kafka: EmbeddedKafka, topic_prefix: str) -> str:
    """Create a topic with four partitions."""
    name = f"{topic_prefix}-source"
    make_topics(kafka.bootstrap, {name: 4})
    return name


@pytest.fixture
def replay(
    kafka: EmbeddedKafka, topic_prefix: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> Command:
    """A function that runs the command in this mode and returns exit code, output and errors."""
    monkeypatch.setenv("KSTORM_OPERATOR", "anna@laptop")

    where = ("--topology", topic_prefix, "--bootstrap", kafka.bootstrap, "--mode", "produce")
    return lambda *words: run_kstorm(capsys, "dlq", "replay", *words, *where)


def left(letters: Letters) -> list[int]:
    return [one.number for one in read_letters(letters.settings, letters.name).letters]


def written(letters: Letters, topic: str) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": letters.kafka.bootstrap,
            "group.id": "looks",
            "enable.partition.eof": True,
        }
    )
    found: list[Message] = []
    try:
        left = set(consumer.list_topics(topic, 20).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left and (message := consumer.poll(20)) is not None:
            if message.error() is None:
                found.append(message)
            else:
                left.discard(message.partition())
    finally:
        consumer.close()
    return found


def headers(message: Message) -> Mapping[str, bytes | str | None]:
    return dict(message.headers() or ())


@pytest.mark.slow
def test_copy_names_its_original(
    letters: Letters, replay: Command, source: str, capsys: Any
) -> None:
    """A message of a queue has no coordinates, so the copy has those of its letter.

    The letter is discarded.
    """
    queue = letters.letter(
        -1, topic="", partition=-1, key=b"k", headers=[("a", "b"), ("none", None)]
    )
    letters.write(queue)
    code, _, complained = replay("0", "--yes")
    assert (
        code,
        "1 not replayed: it did not come from a topic: give --to TOPIC" in complained,
    ) == (2, True)
    assert replay("0", "--yes", "--to", "nowhere")[0] == 2
    assert replay("0", "--to", source, "--dry-run")[0] == 0
    assert (written(letters, source), left(letters)) == ([], [0])
    code, shown, _ = replay("0", "--to", source, "--yes", "--note", "mended")
    assert (code, shown.splitlines()[-1]) == (
        0,
        f"1 copied to {source}, and their letters discarded",
    )
    (message,) = written(letters, source)
    assert (message.key(), message.value()) == (b"k", SECRET)
    assert headers(message) == {
        "a": b"b",
        "none": None,
        copying.REPLAY_OF: f"{letters.topic}/0/0".encode(),
        copying.REPLAYS: b"1",
    }
    assert left(letters) == []
    with pytest.raises(SystemExit):
        main(
            ["events", "--json", "--topology", letters.name, "--bootstrap", letters.kafka.bootstrap]
        )
    event = json.loads(capsys.readouterr().out)
    assert (event["who"], event["verb"], event["what"], event["note"]) == (
        "anna@laptop",
        "replay",
        "0",
        "mended",
    )
    assert event["outcome"] == f"1 copied to {source}, and their letters discarded"


@pytest.mark.slow
def test_letter_of_a_missing_partition_is_copied(
    letters: Letters, replay: Command, source: str
) -> None:
    """No spout can emit it.

    `--force` also copies messages that a spout could emit, into their partition.
    """
    letters.write(
        letters.letter(7, topic=source, partition=17), letters.letter(8, topic=source, partition=3)
    )
    code, _, complained = replay("--all", "--yes")
    assert code == 0
    assert "1 not replayed: a KafkaSpout can emit it again at its own coordinates" in complained
    assert "leave out --mode produce" in complained
    assert left(letters) == [1], "it is refused, and not replayed instead"
    assert replay("1", "--yes")[0] == 2
    assert replay("1", "--yes", "--force")[0] == 0
    found = {
        headers(each)[copying.REPLAY_OF]: each.partition() for each in written(letters, source)
    }
    assert found[f"{source}/3/8".encode()] == 3
    assert set(found) == {f"{source}/3/8".encode(), f"{source}/17/7".encode()}


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("kafka_spout", [True, False])
def test_code_decides_if_the_spout_can_replay(
    letters: Letters,
    replay: Command,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    kafka_spout: bool,
    guarantee: str,
) -> None:
    """A KafkaSpout can. Other spouts cannot."""
    builder = TopologyBuilder(letters.name, Config(topology_processing_guarantee=guarantee))
    config = SpoutConfig(KafkaHosts(), source, id="lines")
    builder.set_spout("lines", KafkaSpout(config) if kafka_spout else FeederSpout("line"))
    topology: Topology = builder.build()
    code_module = ModuleType("code_of_the_spout")
    monkeypatch.setattr(code_module, "topology", topology, raising=False)
    monkeypatch.setitem(sys.modules, code_module.__name__, code_module)
    monkeypatch.setenv("KSTORM_TOPOLOGY", "code_of_the_spout:topology")
    letters.write(letters.letter(7, topic=source))
    code, _, complained = replay("0", "--yes")
    assert (code, "--force copies it anyway" in complained) == (
        (2, True) if kafka_spout else (0, False)
    ), complained


@pytest.mark.slow
def test_letters_that_cannot_be_copied(letters: Letters, replay: Command, source: str) -> None:
    """These are tuples, records of a sink, cut or unreadable values, replays under way, and
    messages of another Kafka.

    `--force` does not help.
    """
    letters.write(
        letters.letter(1, topic=f"{letters.name}.count", row=3),
        letters.letter(-1, topic=source, partition=-1),
        letters.letter(4, topic=source, value=b"x" * 800_000),
        letters.strange(6, value=None, topic=source),
        letters.letter(7, topic="elsewhere"),
        letters.letter(8, topic=source),
    )
    order = ReplayRequest(number=5, topic=source, partition=3, offset=8)
    write_topic(
        letters.settings,
        f"{letters.name}.__orders",
        [(f"{source}/3/8/lines".encode(), encode_request(order))],
    )
    code, _, complained = replay("--all", "--yes", "--force")
    assert (code, written(letters, source), left(letters)) == (2, [], [0, 1, 2, 3, 4, 5])
    for said in (
        "it is a tuple",
        "it is a record of a sink",
        "only the beginning",
        "no part of the message could be read",
        "its replay is in progress",
        "this Kafka has no topic 'elsewhere'",
    ):
        assert f"1 not replayed: {said}" in complained or said in complained, said


@pytest.mark.slow
def test_copy_that_failed_three_times_requires_force(
    letters: Letters, replay: Command, source: str
) -> None:
    """A header counts the copies.

    After three `--force` is required. It still names the first message.
    """
    told = [(copying.REPLAY_OF, "lines/0/1"), (copying.REPLAYS, "3")]
    letters.write(letters.letter(9, topic=source, partition=17, headers=told))
    code, _, complained = replay("0", "--yes")
    assert (code, "it was replayed 3 times and failed again; --force copies it" in complained) == (
        2,
        True,
    )
    assert replay("0", "--yes", "--force")[0] == 0
    (message,) = written(letters, source)
    assert headers(message) == {copying.REPLAY_OF: b"lines/0/1", copying.REPLAYS: b"4"}


@pytest.mark.slow
def test_letters_of_kstorm_0_1_are_copied_and_remain(
    kafka: EmbeddedKafka, topic_prefix: str, replay: Command, source: str
) -> None:
    """They have no key. The output has a note."""
    letters = Letters(kafka, topic_prefix, **{"cleanup.policy": "delete"})
    write_topic(
        letters.settings, letters.topic, [(None, encode_letter(letters.letter(9, topic=source)))]
    )
    code, shown, _ = replay("0", "--yes")
    assert (code, "1 letter without a key cannot be discarded" in shown, left(letters)) == (
        0,
        True,
        [0],
    )


@pytest.mark.slow
def test_rate_and_limit_of_copies(letters: Letters, replay: Command, source: str) -> None:
    """The oldest come first."""
    letters.write(*(letters.letter(number, topic=source, partition=17) for number in range(4)))
    begun = time.monotonic()
    assert replay("--all", "--rate", "2", "--limit", "3", "--yes")[0] == 0
    assert time.monotonic() - begun >= 1.0
    assert left(letters) == [3]


@pytest.mark.slow
def test_letter_remains_if_kafka_refuses_its_copy(
    letters: Letters, replay: Command, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the letters of written copies are discarded. The event has the number."""
    letters.write(*(letters.letter(number, topic=source, partition=17) for number in range(3)))
    monkeypatch.setattr(copying, "write_raw", _takes_the_first)
    code, shown, complained = replay("--all", "--yes")
    assert (code, left(letters)) == (2, [1, 2])
    assert "did not accept a copy: too large" in complained
    assert "1 copied to their topics, and their letters discarded; then: Kafka at" in shown


def _takes_the_first(_settings: object, _copies: list[RawMessage]) -> tuple[set[int], str]:
    return {0}, "too large"


@pytest.mark.slow
def test_to_requires_the_mode_produce(kafka: EmbeddedKafka, letters: Letters, capsys: Any) -> None:
    """A replay request uses the message's own coordinates."""
    words = [
        "dlq",
        "replay",
        "0",
        "--to",
        "x",
        "--topology",
        letters.name,
        "--bootstrap",
        kafka.bootstrap,
    ]
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert "--to is for copies: give --mode produce too" in capsys.readouterr().err
