"""`kstorm dlq replay` on real servers: the requests that it writes, and their execution by the
spouts."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from kstorm.cli.__main__ import main
from kstorm.core.dead_letters import DeadLetter
from kstorm.dev.servers import EmbeddedKafka
from kstorm.kafka.replay_requests import decode_request
from kstorm.operations.letters.reading import record_of
from kstorm.operations.letters.selection import current_letters, fingerprint
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.event_log import read_events
from kstorm.runtime.kafka.single_partition_topic import read_topic, write_topic
from tests.integration import topologies
from tests.integration.conftest import RunTopology
from tests.integration.dead_letters import SECRET, Letters
from tests.integration.engine import SOURCE_PARTITIONS, Engine, check_words
from tests.kstorm_command import Command, run_kstorm


@pytest.fixture
def kstorm(
    kafka: EmbeddedKafka, topic_prefix: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> Command:
    """A function that runs the command for the test's topology and returns exit code, output and
    errors."""
    monkeypatch.setenv("KSTORM_OPERATOR", "anna@laptop")

    def run(*words: str, topology: str = topic_prefix) -> tuple[object, str, str]:
        where = ("--topology", topology, "--bootstrap", kafka.bootstrap)
        return run_kstorm(capsys, "dlq", "replay", *words, *where)

    return run


def test_replay_request_has_everything_of_the_message(letters: Letters, kstorm: Command) -> None:
    """A second request for an open one is rejected."""
    letters.write(
        letters.letter(7, key=b"k", headers=[("a", "b")], timestamp=1700), letters.letter(8)
    )
    assert kstorm("0", "--dry-run")[0] == 0
    assert letters.orders() == []
    code, shown, _ = kstorm("0", "--yes", "--note", "mended")
    assert (code, shown.splitlines()[-1]) == (
        0,
        "1 replay requested: `kstorm events` shows the outcome of each",
    )
    ((key, order),) = letters.orders()
    assert (key, order.number, order.value, order.key) == (b"orders/3/7/lines", 0, SECRET, b"k")
    assert (order.topic, order.partition, order.offset, order.headers) == (
        "orders",
        3,
        7,
        [("a", "b")],
    )
    assert (order.timestamp, order.attempts, order.replays, order.after) == (1700, 5, 1, 0)
    assert (order.who, order.note) == ("anna@laptop", "mended")
    code, _, complained = kstorm("0", "1", "--yes")
    assert (
        code,
        "1 not replayed: its replay is in progress" in complained,
        len(letters.orders()),
    ) == (2, True, 1)
    write_topic(letters.settings, f"{letters.name}.__orders", [(key, None)])
    assert kstorm("0", "--yes")[0] == 0


@pytest.mark.slow
def test_replay_by_group_with_rate_and_limit(letters: Letters, kstorm: Command) -> None:
    """The oldest letters come first, each with its earliest time."""
    letters.write(*map(letters.letter, range(5)), letters.strange(9))
    before = time.time() * 1000
    code, shown, _ = kstorm(
        "--group", fingerprint(letters.letter(0))[:4], "--rate", "2", "--limit", "3", "--yes"
    )
    assert (code, "3 replays requested" in shown) == (0, True)
    found = [order for _, order in letters.orders()]
    assert [order.number for order in found] == [0, 1, 2]
    assert [order.after - found[0].after for order in found] == [0, 500, 1000]
    assert before <= found[0].after <= time.time() * 1000
    assert "3 replays requested" in kstorm("--all", "--yes")[1], (
        "all whose replay is not in progress"
    )
    for words in ((), ("0", "--all"), ("--all", "--group", "abcd")):
        assert "Give their numbers, --group or --all" in kstorm(*words)[2]


@pytest.mark.slow
def test_many_replays_are_requested_in_stages(letters: Letters, kstorm: Command) -> None:
    """Each spout has its own stages, because spouts do not know each other.

    Letters given by number have none.
    """
    letters.write(
        *map(letters.letter, range(12)),
        *(letters.letter(each, component="other") for each in range(3)),
    )
    assert kstorm("--all", "--rate", "2", "--yes")[0] == 0
    found = [order for _, order in letters.orders()]
    assert len({order.batch for order in found}) == 1 != len(found[0].batch)
    assert [order.stage for order in found] == [0, *[1] * 10, 2, 0, 1, 1]
    assert [order.stages for order in found] == [[1, 10, 1]] * 12 + [[1, 2]] * 3
    assert [order.pace for order in found] == [0, *range(0, 5000, 500), 0, 0, 0, 500]
    write_topic(
        letters.settings, f"{letters.name}.__orders", [(key, None) for key, _ in letters.orders()]
    )
    before = len(found)
    assert kstorm("--all", "--no-canary", "--yes")[0] == 0
    letters.write(letters.letter(20), letters.letter(21))
    assert kstorm("15", "16", "--yes")[0] == 0
    records = list(read_topic(letters.settings, f"{letters.name}.__orders"))[2 * before :]
    alone = [decode_request(record.value() or b"") for record in records]
    assert {(order.batch, order.stage) for order in alone} == {("", 0)}
    assert len(alone) == 17


@pytest.mark.slow
def test_letters_that_cannot_be_replayed(letters: Letters, kstorm: Command) -> None:
    """These are a bolt's tuple, a message of a queue, a cut message, one that failed in three
    replays, and one with other tuples."""
    big = letters.letter(4, value=b"x" * 800_000)
    letters.write(
        letters.letter(1, topic=f"{letters.name}.count", row=3),
        letters.letter(-1, topic="", partition=-1),
        big,
        letters.letter(5, replays=3),
        letters.strange(6, value=None),
        letters.letter(8, kind="too_large", value=None, roots=["00" * 8]),
    )
    code, _, complained = kstorm("--all", "--yes")
    assert (code, letters.orders()) == (2, [])
    for said in (
        "2 not replayed: it is not a message of a source topic",
        "1 not replayed: the letter has only the beginning",
        "1 not replayed: no part of the message could be read",
        "1 not replayed: the letter is of one of the message's tuples",
        "--force",
    ):
        assert said in complained
    assert kstorm("3", "--yes", "--force")[0] == 0
    assert [order.replays for _, order in letters.orders()] == [4]


@pytest.fixture
def engine(run_topology: RunTopology) -> Iterator[Engine]:
    """A running word count."""
    with run_topology("wordcount") as found:
        yield found


def produce_unreadable(engine: Engine, settings: Settings, count: int) -> None:
    """Write undecodable messages and wait for their dead letters."""
    producer = Producer({"bootstrap.servers": engine.bootstrap})
    for number in range(count):
        producer.produce(
            engine.source, b"no text: \xff", partition=(number + 1) % SOURCE_PARTITIONS
        )
    assert producer.flush(30) == 0
    engine.until(lambda: len(_letters(engine, settings)) == count, 60, "they are dead letters")


def test_spout_handles_replay_requests(kstorm: Command, engine: Engine) -> None:
    """An undecodable message becomes a new letter.

    With an edited value it is processed, and its letter discarded.
    """
    name = engine.processes.topology.name
    settings = Settings(topology="", bootstrap_servers=engine.bootstrap)
    engine.produce(["one two"])
    produce_unreadable(engine, settings, 1)
    assert kstorm("0", "--yes", topology=name)[0] == 0
    engine.until(
        lambda: [each.replays for each in _letters(engine, settings)] == [1], 60, "it is one again"
    )
    (letter,) = _letters(engine, settings)
    assert (letter.kind, letter.attempts, letter.component) == ("undecodable", 2, "sentences")
    engine.until(lambda: _outcomes(name, settings)[-1:] != [], 30, "an event says so")
    assert _outcomes(name, settings)[-1].startswith("failed again: cannot be deserialized")
    code = f"{topologies.__name__}:wordcount"
    words = ["dlq", "edit", "1", "--value", "three four", "--yes", "--topology", code]
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--bootstrap", engine.bootstrap])
    engine.until(lambda: _letters(engine, settings) == [], 60, "it is discarded")
    engine.until(lambda: _outcomes(name, settings)[-1] == "done", 30, "an event says so")
    assert check_words(engine, ["one two", "three four"]) == Counter()


def _letters(engine: Engine, settings: Settings) -> list[DeadLetter]:
    found = read_topic(settings, engine.processes.topology.dead_letters_topic)
    return [one.letter for one in current_letters(map(record_of, found)).letters]


def _outcomes(name: str, settings: Settings) -> list[str]:
    """Return the results of the spout's replays."""
    return [
        event.outcome
        for event in read_events(settings, name)
        if event.who.startswith("sentences, task ")
    ]
