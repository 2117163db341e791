"""Replay requests for dead letters: `KafkaSpout` carries them out despite crashes."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kstorm.core.dead_letters import DeadLetter, key_of
from kstorm.events import Event, decode_event
from kstorm.kafka import (
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    ProcessingGuarantee,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.kafka.replay_requests import ReplayRequest, encode_request
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    FailedException,
    Fields,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)

SEEDS = range(6)
LINES = ["good 0", "bad 1", "good 2", "bad 3"]


class Price(BasicBolt):
    """Fails bad messages until the test sets `mended`."""

    mended = False

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emits the line in capitals."""
        if tuple["str"].startswith("bad") and not Price.mended:
            raise FailedException("no such product")
        collector.emit((None, tuple["str"].upper()))


@pytest.fixture(autouse=True)
def broken() -> Iterator[None]:
    Price.mended = False
    yield
    Price.mended = False


def wired(source: SpoutConfig, tasks: int = 1, config: Config | None = None) -> Topology:
    builder = TopologyBuilder("t", config or Config())
    builder.set_spout("lines", KafkaSpout(source), tasks)
    builder.set_bolt("price", Price(), 2).shuffle_grouping("lines")
    builder.set_bolt("sink", KafkaBolt().with_topic_selector("out")).shuffle_grouping("price")
    return builder.build()


def source(**settings: Any) -> SpoutConfig:
    given = {"scheme": SchemeAsMultiScheme(StringScheme()), "retry_limit": 0, **settings}
    return SpoutConfig(KafkaHosts(), "in", "/kstorm", "lines", **given)


def produced(*lines: str | bytes, partitions: int = 2) -> FakeKafka:
    kafka = FakeKafka({"in": partitions, "out": 1})
    for number, line in enumerate(lines):
        kafka.produce("in", line, partition=number % partitions)
    return kafka


def out(kafka: FakeKafka) -> list[str]:
    return sorted((record.value() or b"").decode() for record in kafka.records("out"))


def order(kafka: FakeKafka, letters: list[DeadLetter], **more: Any) -> None:
    """Requests replays as the command does."""
    for number, one in enumerate(letters):
        what = ReplayRequest(
            number=number,
            topic=one.topic,
            partition=one.partition,
            offset=one.offset,
            value=one.value,
            attempts=one.attempts,
            replays=one.replays + 1,
            who="anna@laptop",
            **more,
        )
        kafka.produce("t.__orders", encode_request(what), key_of(one, ""))


def last(kafka: FakeKafka, topic: str) -> dict[bytes | None, bytes | None]:
    """Returns the latest record per key, as compaction would leave them."""
    return {record.key(): record.value() for record in kafka.records(topic)}


def events(kafka: FakeKafka) -> list[Event]:
    return [decode_event(record.value() or b"") for record in kafka.records("t.__events")]


def letters_of(cluster: LocalCluster) -> list[DeadLetter]:
    return sorted(
        cluster.dead_letters, key=lambda letter: (letter.partition, letter.offset, letter.attempts)
    )


def run_until_dead(cluster: LocalCluster, count: int = 2) -> list[DeadLetter]:
    cluster.advance_time(5)
    found = letters_of(cluster)
    assert len(found) == count
    return found


def test_letter_names_the_bolt_and_the_error() -> None:
    """With at least once, the failure brings them through the acker."""
    with produced(*LINES).cluster(wired(source())) as cluster:
        for letter in run_until_dead(cluster):
            assert (letter.component, letter.kind) == ("lines", "failed")
            assert letter.error is not None
            assert (letter.error.component, letter.error.message) == ("price", "no such product")
            assert letter.error.where.startswith("test_replays.py:")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tasks", [1, 2])
def test_edited_message_keeps_its_coordinates_and_its_letter_is_discarded(
    seed: int, tasks: int
) -> None:
    kafka, config = produced(*LINES), source()
    with kafka.cluster(wired(config, tasks), seed) as cluster:
        dead = run_until_dead(cluster)
        stored = [kafka.stored_offset(config, number) for number in (0, 1)]
        Price.mended = True
        order(kafka, dead)
        cluster.advance_time(5)
        assert out(kafka) == ["BAD 1", "BAD 3", "GOOD 0", "GOOD 2"]
        assert last(kafka, "t.__dead_letters") == {b"in/1/0/lines": None, b"in/1/1/lines": None}
        assert set(last(kafka, "t.__orders").values()) == {None}
        assert sorted((event.verb, event.what, event.outcome) for event in events(kafka)) == [
            ("replay", "0 (in/1/0)", "done"),
            ("replay", "1 (in/1/1)", "done"),
        ]
        assert [kafka.stored_offset(config, number) for number in (0, 1)] == stored
        assert (cluster.pending, len(cluster.dead_letters)) == (0, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_message_that_fails_again_gets_a_new_letter(seed: int) -> None:
    """The letter counts another attempt and replay, and can be replayed again."""
    kafka = produced(*LINES)
    with kafka.cluster(wired(source()), seed) as cluster:
        dead = run_until_dead(cluster)
        order(kafka, dead)
        cluster.advance_time(5)
        again = [letter for letter in cluster.dead_letters if letter.replays]
        assert sorted((letter.offset, letter.attempts, letter.replays) for letter in again) == [
            (0, 2, 1),
            (1, 2, 1),
        ]
        assert {key_of(letter, "") for letter in again} == {key_of(letter, "") for letter in dead}
        assert {letter.reason for letter in again} == {"failed again when it was replayed"}
        assert set(last(kafka, "t.__orders").values()) == {None}
        assert last(kafka, "t.__dead_letters") == {}
        Price.mended = True
        order(kafka, again)
        cluster.advance_time(5)
        assert out(kafka) == ["BAD 1", "BAD 3", "GOOD 0", "GOOD 2"]
        assert [event.outcome for event in events(kafka)].count("done") == 2


def test_a_thousand_letters_are_replayed_each_once() -> None:
    """They are more than a spout may have pending."""
    kafka, config = (
        produced(*(f"bad {number}" for number in range(1000))),
        Config(topology_max_spout_pending=300),
    )
    with kafka.cluster(wired(source(), 2, config)) as cluster:
        dead = run_until_dead(cluster, 1000)
        Price.mended = True
        order(kafka, dead)
        for _ in range(10):
            cluster.advance_time(1)
        assert out(kafka) == sorted(f"BAD {number}" for number in range(1000))
        assert Counter(event.outcome for event in events(kafka)) == {"done": 1000}
        assert set(last(kafka, "t.__orders").values()) == {None}


@pytest.mark.parametrize("seed", range(20))
def test_request_survives_crashes(seed: int) -> None:
    """Each message is processed at least once, and every request ends, despite a crash."""
    kafka = produced(*LINES)
    with kafka.cluster(wired(source(), 2), seed) as cluster:
        dead = run_until_dead(cluster)
        Price.mended = True
        order(kafka, dead)
        for _ in range(seed * 4):
            cluster.step()
        cluster.crash(("lines", "price", "sink", "acker")[seed % 4])
        cluster.advance_time(120)
        assert set(out(kafka)) == {"BAD 1", "BAD 3", "GOOD 0", "GOOD 2"}
        assert set(last(kafka, "t.__orders").values()) == {None}
        again = {(letter.topic, letter.offset) for letter in cluster.dead_letters if letter.replays}
        discarded = {key for key, value in last(kafka, "t.__dead_letters").items() if value is None}
        assert len(again) + len(discarded) >= 2, "each is discarded, or has a new letter"
        assert cluster.pending == 0


class Words:
    """A multi-scheme with one tuple per word."""

    output_fields = Fields("str")

    def deserialize(self, value: bytes) -> list[list[str]]:
        return [[word] for word in value.decode().split()]


class Slow(Bolt):
    """Fails bad messages. With `mended`, it holds them forever instead."""

    def execute(self, tuple: Tuple) -> None:
        """Acks all other messages."""
        if not tuple["str"].startswith("bad"):
            self.collector.ack(tuple)
        elif not Price.mended:
            self.collector.fail(tuple)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_message_is_emitted_once_and_is_not_done_before_its_last_tuple(seed: int) -> None:
    """Further looks for requests do not repeat it, nor does another tuple of the message."""
    kafka = produced("good bad", partitions=1)
    builder = TopologyBuilder("t", Config())
    builder.set_spout("lines", KafkaSpout(source(scheme=Words())))
    builder.set_bolt("slow", Slow()).shuffle_grouping("lines")
    with kafka.cluster(builder.build(), seed) as cluster:
        dead = run_until_dead(cluster, 1)
        Price.mended = True
        order(kafka, dead)
        for _ in range(5):
            cluster.advance_time(1)
        assert Counter(word for (word,) in cluster.emitted("lines")) == {"good": 2, "bad": 2}
        assert (last(kafka, "t.__dead_letters"), events(kafka)) == ({}, [])
        cluster.advance_time(60)
        assert [letter.replays for letter in cluster.dead_letters] == [0, 1], "it has timed out"
        assert events(kafka)[0].outcome.startswith("failed again")


def test_nothing_is_emitted_before_its_time() -> None:
    """The start time of each request limits the rate."""
    kafka = produced(*LINES)
    with kafka.cluster(wired(source())) as cluster:
        dead = run_until_dead(cluster)
        Price.mended = True
        order(kafka, dead, after=1 << 60)
        cluster.advance_time(60)
        assert out(kafka) == ["GOOD 0", "GOOD 2"]
        assert None not in last(kafka, "t.__orders").values()


def test_a_message_that_cannot_be_read_is_dead_again() -> None:
    kafka = produced(b"\xff", partitions=1)
    with kafka.cluster(wired(source())) as cluster:
        dead = run_until_dead(cluster, 1)
        order(kafka, dead)
        cluster.advance_time(5)
        again = cluster.dead_letters[-1]
        assert (again.kind, again.replays, again.attempts) == ("undecodable", 1, 2)
        assert set(last(kafka, "t.__orders").values()) == {None}


def test_request_that_cannot_be_replayed_ends() -> None:
    kafka = produced("good 0", partitions=1)
    untracked = source(processing_guarantee=ProcessingGuarantee.AT_MOST_ONCE)
    with kafka.cluster(wired(untracked)) as cluster:
        cluster.advance_time(5)
        order(
            kafka,
            [
                DeadLetter(
                    topology="t",
                    component="lines",
                    task=1,
                    reason="r",
                    topic="in",
                    partition=0,
                    offset=0,
                    value=b"x",
                )
            ],
        )
        cluster.advance_time(5)
        (event,) = events(kafka)
        assert event.outcome.startswith("refused: ")
        assert "AT_MOST_ONCE" in event.outcome
        assert Counter(out(kafka)) == Counter(["GOOD 0"])
        assert last(kafka, "t.__orders") == {b"in/0/0/lines": None}


def test_foreign_requests_are_ignored() -> None:
    """The spout ignores requests for other spouts, requests without a key, and invalid records."""
    kafka = produced("good 0", partitions=1)
    with kafka.cluster(wired(source())) as cluster:
        cluster.advance_time(5)
        found = ReplayRequest(number=1, topic="in", partition=0, offset=0, value=b"good 9")
        for key, value in (
            (b"in/0/0/other", encode_request(found)),
            (None, encode_request(found)),
            (b"x/lines", b"\xff"),
        ):
            kafka.produce("t.__orders", value, key)
        cluster.advance_time(5)
        assert out(kafka) == ["GOOD 0"]
        assert ["are not a replay request" in str(error) for error in cluster.errors] == [True]
