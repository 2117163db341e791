"""Foreign clients write to kstorm's topics: each invalid record becomes a dead letter with its
place, and no process stops."""

import shutil
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kstorm.core.wire import VERSION, AckFrame, CompletionFrame, TupleFrame, encode, pack_ids
from kstorm.dev.servers import EmbeddedKafka
from tests.chaos.findings import RecordPlace
from tests.integration.conftest import RunTopology
from tests.integration.engine import SOURCE_PARTITIONS, Engine, check_words
from tests.integration.finished_ranges import finished_ranges, offsets_in
from tests.integration.topic_settings import set_topic
from tests.integration.undecodable_batch import offer_undecodable, write_silent, write_undecodable


class Stranger:
    """Writes to topics with its own keys and headers, and keeps the place of each record."""

    def __init__(self, engine: Engine) -> None:
        self._producer = Producer({"bootstrap.servers": engine.bootstrap, "log_level": 0})

    def write(
        self, topic: str, *values: bytes | None, partition: int = 0, key: bytes | None = b"\xffkey"
    ) -> list[RecordPlace]:
        """Write records in order, and return their places."""
        places: list[RecordPlace] = []

        def written(error: object, record: Any) -> None:
            assert error is None, error
            places.append(RecordPlace(topic, record.partition(), record.offset()))

        for value in values:
            headers: list[tuple[str, str | bytes | None]] = [
                ("traceparent", b"\xff\x00"),
                ("empty", None),
            ]
            self._producer.produce(topic, value, key, partition, written, headers=headers)
        assert self._producer.flush(60) == 0
        return places


def frame(
    component: str = "sentences",
    task: int = 1,
    stream: str = "default",
    columns: Any = (("a",), (0,), (0,)),
    version: int = VERSION,
) -> bytes:
    """Return a frame with one tuple, as the word count's spout sends it."""
    return encode(
        TupleFrame(
            version, component, task, stream, 1, b"", b"", {}, [list(column) for column in columns]
        )
    )


ids = pack_ids([1, 2])
WIDE = (
    msgspec.msgpack.encode([VERSION, "a", 1, "s", 1, b"", b"", {}, []])[:-1]
    + b"\xdd\x00\x04\x93\xe0"
)
GARBAGE = [
    None,  # a tombstone
    b"",
    b"\xc1 no frame",
    b'{"json": true}',
    WIDE,  # claims 300,000 columns
    WIDE + b"\x90" * 300_000,  # has them, all empty
    frame(version=VERSION + 1),
    encode(AckFrame(VERSION + 1, 1)),
    encode(CompletionFrame(0, 1)),
]
BAD_TUPLES = [
    *GARBAGE,
    frame(component="nobody"),
    frame(stream="nothing"),
    frame(task=99),
    frame(task=-1),
    frame(columns=()),
    frame(component="x" * 500_000),
    encode(AckFrame(VERSION, 1, ids, ids)),
]
BAD_ACKS = [
    *GARBAGE,
    frame(),
    encode(AckFrame(VERSION, 1, ids, ids[:8])),
    encode(AckFrame(VERSION, 1, b"123", b"123")),
    encode(AckFrame(VERSION, 99, ids, ids)),  # inits of no spout task
    encode(AckFrame(VERSION, -1, ids, ids)),
]
BAD_COMPLETIONS = [*GARBAGE, frame(), encode(CompletionFrame(VERSION, 0, b"odd"))]


@pytest.fixture
def text() -> list[str]:
    """Sentences of seven repeated words."""
    return [f"one two w{number % 7}" for number in range(1200)]


def letters(engine: Engine) -> list[dict[str, Any]]:
    """Return all dead letters, without those of the stranger."""
    found = engine.records(engine.processes.topology.dead_letters_topic, partitions=1)
    return [letter for letter in found if letter != "not mine"]


def place(letter: dict[str, Any]) -> RecordPlace:
    return RecordPlace(letter["topic"], letter["partition"], letter["offset"])


def test_foreign_records_become_dead_letters(
    run_topology: RunTopology, tmp_path: Path, text: list[str]
) -> None:
    """On the input topics of tasks each one becomes a dead letter, and no process ends.

    In the changelogs, which are read after a crash, they are skipped, and the overwritten values
    still count.
    """
    with run_topology("wordcount") as engine:
        topology, stranger = engine.processes.topology, Stranger(engine)
        engine.produce(text[:600])
        bad = stranger.write(topology.acker_topic, *BAD_ACKS)
        bad += stranger.write(topology.completions_topic("sentences"), *BAD_COMPLETIONS)
        for bolt in ("split", "count", "sink"):
            bad += stranger.write(topology.bolt_topic(bolt), *BAD_TUPLES)
        for partition in range(SOURCE_PARTITIONS):
            bad += stranger.write(engine.source, b"no text: \xff", partition=partition)
            stranger.write(engine.source, None, partition=partition)  # a tombstone is done at once
        engine.produced += 2 * SOURCE_PARTITIONS
        # Valid frames about unknown trees.
        stranger.write(
            topology.acker_topic,
            encode(AckFrame(VERSION, 0, roots=ids, vals=ids, failed=ids, reset=ids)),
        )
        stranger.write(
            topology.completions_topic("sentences"),
            encode(CompletionFrame(VERSION, 0, ids, ids, ids)),
        )
        stranger.write(topology.dead_letters_topic, b'"not mine"', key=b"not mine")
        engine.produce(text[600:900])
        engine.await_done("sentences")
        assert check_words(engine, text[:900]) == Counter()
        engine.await_total("sentences", "unknown", 4)
        assert engine.total("sentences", "acked") == 900
        assert all(worker.process.starts == 1 for worker in engine.processes.workers)

        found = letters(engine)
        assert Counter(map(place, found)) == Counter(bad)
        assert all(
            letter["reason"] and letter["component"] and len(letter["reason"]) <= 2100
            for letter in found
        )
        values = {place(letter): letter.get("value") for letter in found}
        assert sum(value is None for value in values.values()) == 5  # the tombstones
        reasons = "\n".join(letter["reason"] for letter in found)
        for said in (
            "without a value",
            f"version {VERSION + 1}",
            "does not subscribe",
            "task 99",
            "cannot be deserialized",
        ):
            assert said in reasons
        kinds = {place(letter): letter["kind"] for letter in found}
        assert {kind for at, kind in kinds.items() if at.topic == engine.source} == {"undecodable"}
        assert {kind for at, kind in kinds.items() if at.topic != engine.source} == {"stranger"}
        assert {
            letter["error"]["type"] for letter in found if letter["topic"] == engine.source
        } == {"UnicodeDecodeError"}
        assert all(
            abs(letter["at"] / 1000 - time.time()) < 300 and "kstorm" in letter["version"]
            for letter in found
        )
        components = ("sentences", "split", "count", "sink", "__acker")
        assert sum(engine.total(component, "dead_letters") for component in components) == len(bad)

        in_changelogs = write_over_changelogs(stranger, engine)
        for name in ("acker-0", "count-0"):
            engine.worker(name).process.kill()
            shutil.rmtree(tmp_path / "data" / name)  # so that the whole changelog is read
        engine.produce(text[900:])
        engine.await_done("sentences")
        check_words(engine, text)
        assert {
            worker.name for worker in engine.processes.workers if worker.process.starts > 2
        } == set()
        found = letters(engine)
        assert set(map(place, found)) == {*bad, *in_changelogs}


def write_over_changelogs(stranger: Stranger, engine: Engine) -> list[RecordPlace]:
    """Write foreign keys, and garbage and tombstones under existing keys."""
    topology = engine.processes.topology
    ledger, state = topology.ledger_topic, topology.state_topic("count")
    bad = []
    for partition in range(4):
        for key in (b"\xffkey", b"99", b"0", b"31"):
            bad += stranger.write(ledger, b"no bucket", None, partition=partition, key=key)
        bad += stranger.write(state, b"\xc1", partition=partition)
        for word in (b"one", b"w3"):
            bad += stranger.write(
                state, b"\xc1", b"\xdd\xff\xff\xff\xff", partition=partition, key=word
            )
    return bad


@pytest.mark.slow
def test_undecodable_batches_become_dead_letters(
    run_topology: RunTopology, kafka: EmbeddedKafka, text: list[str]
) -> None:
    """Each is one dead letter with its first offset. Later records are processed, and no process
    ends.

    In the source all of its offsets are in the finished ranges. The topics of kstorm reject such
    batches.
    """
    records = {0: 5, 1: 1}
    with run_topology("wordcount") as engine:
        topology = engine.processes.topology
        engine.produce(text[:300])
        own = [topology.acker_topic, topology.completions_topic("sentences")]
        own += [topology.bolt_topic(bolt) for bolt in ("split", "count", "sink")]
        everywhere = [
            *own,
            *topology.changelogs(),
            topology.dead_letters_topic,
            topology.finished_topic,
        ]
        assert all(offer_undecodable(kafka.bootstrap, topic) for topic in everywhere), (
            "the broker opens what comes there"
        )
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        for topic in own:  # like a topic of an earlier version
            set_topic(admin, topic, "compression.type", "producer")
        topics = [*own, engine.source]
        writers: list[Callable[[str, str, int], int]] = [
            partial(write_undecodable, records=records[0]),
            write_silent,
        ]
        bad = [
            RecordPlace(topic, partition, write(kafka.bootstrap, topic, partition))
            for topic in topics
            for partition, write in enumerate(writers)
        ]
        engine.produce(text[300:600])
        expected = {
            p: len(range(p, 600, SOURCE_PARTITIONS)) + records.get(p, 0)
            for p in range(SOURCE_PARTITIONS)
        }
        engine.until(lambda: engine.offsets() == expected, 180, f"offsets {expected}")
        check_words(engine, text[:600])
        assert all(worker.process.starts == 1 for worker in engine.processes.workers)
        found = letters(engine)
        assert Counter(map(place, found)) == Counter(bad)
        said = {
            0: "cannot be decoded: Decompression",
            1: "cannot be decoded: librdkafka fetches it repeatedly",
        }
        assert all(said[letter["partition"]] in letter["reason"] for letter in found)
        ranges = finished_ranges(kafka.bootstrap, topology.finished_topic)
        for partition in range(2):
            done = [each for each in ranges if each.partition == partition]
            assert offsets_in(done) >= set(range(expected[partition]))
            first = next(
                at.offset for at in bad if (at.topic, at.partition) == (engine.source, partition)
            )
            skipped = [
                (skip.start, skip.end) for each in done for skip in each.skipped if skip.start > 0
            ]
            assert skipped == (
                [(first + 1, first + records[partition])] if records[partition] > 1 else []
            )
