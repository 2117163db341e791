"""`kstorm trace` and `kstorm why` on real servers find the tuple that a bolt has forgotten."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.trees.facts import MessageId
from kstorm.runtime.base.settings import Settings
from kstorm_ui.sources.messages import message_of, oldest_of
from tests.integration.conftest import RunTopology
from tests.integration.engine import SINK_PARTITIONS, SOURCE_PARTITIONS, Engine, running
from tests.kstorm_command import says

REFERENCE = "tests.integration.topologies:forgetful"
SENTENCES = 3000
FORGOTTEN, BAD = 1503, 2404


@pytest.fixture(scope="module")
def prefix() -> str:
    """The prefix of the topology and its topics."""
    return "forgetful"


@pytest.fixture(scope="module")
def engine(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    prefix: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Engine]:
    """A running topology that has finished all sentences except one with a forgotten word and one
    that fails."""
    with pytest.MonkeyPatch.context() as patch:
        folder: Path = tmp_path_factory.mktemp("forgetful")
        with running(
            "forgetful", prefix, kafka, zookeeper, folder, patch, timeout_secs=300
        ) as found:
            patch.setenv("KSTORM_BOOTSTRAP_SERVERS", kafka.bootstrap)
            patch.setenv("KSTORM_ZOOKEEPER", zookeeper.connect)
            patch.setenv("KSTORM_TOPOLOGY", REFERENCE)
            found.produce(map(sentence, range(SENTENCES)))
            found.await_total("sentences", "acked", SENTENCES - 2)
            found.await_total("sentences", "failed", 1)
            ends = {
                p: len(range(p, SENTENCES, SOURCE_PARTITIONS)) for p in range(SOURCE_PARTITIONS)
            }
            ends |= dict(map(place, (FORGOTTEN, BAD)))
            found.until(lambda: found.offsets() == ends, 60, f"offsets {ends}")
            yield found


def sentence(number: int) -> str:
    return {FORGOTTEN: "the cow jumped over the moon", BAD: "this is bad"}.get(
        number, f"sentence w{number % 97} the cow"
    )


def place(number: int) -> tuple[int, int]:
    """Return partition and offset of a sentence."""
    return number % SOURCE_PARTITIONS, number // SOURCE_PARTITIONS


def message(engine: Engine, number: int) -> str:
    return "{}/{}/{}".format(engine.source, *place(number))


def test_oldest_names_the_forgotten_tuple_and_its_task(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has component, task and tuple, and the reason of the failed one."""
    said = {
        line.split(": ")[0]: line
        for line in says(capsys, "why", "--oldest").splitlines()
        if line[:1] != " "
    }
    assert set(said) == {message(engine, FORGOTTEN), message(engine, BAD)}
    forgotten = said[message(engine, FORGOTTEN)]
    assert (
        "executed by count-0 (committed) and neither acked nor failed: the bolt holds or forgot it"
        in forgotten
    )
    assert re.search(
        rf"count\[[0-3]\]: row \d+ of {engine.processes.topology.name}\.count/[0-3]/\d+", forgotten
    )
    assert "it will be replayed at" in forgotten
    bad = said[message(engine, BAD)]
    assert re.search(
        r"failed by split:\d+: ValueError: no such sentence: this is bad \(topologies.py:\d+\)", bad
    )
    assert "waits for its retry at" in bad


def test_finished_message_is_proven(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """It is found by its coordinates."""
    for number in (0, 1, 1499, 2999):
        said = says(capsys, "trace", message(engine, number), "--values")
        assert f"{message(engine, number)} attempt 1, root " in said.splitlines()[0]
        assert re.search(r"✓ complete, proven \(init ⊕ \d+ acks? = 0\)", said)
        assert f"w{number % 97}" in said
        assert says(capsys, "why", message(engine, number)).startswith(
            f"{message(engine, number)}: "
        )


def test_tree_of_a_sink_record(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """The lineage headers name it."""
    partition = next(p for p in range(SINK_PARTITIONS) if _end(engine, p))
    (tree,) = json.loads(says(capsys, "trace", "--sink", f"{engine.sink}/{partition}/0", "--json"))
    assert tree["outcome"] == "acked"
    assert tree["origin"]["topic"] == engine.source
    again = json.loads(says(capsys, "trace", "--root", tree["root"], "--since", "1h", "--json"))
    assert again == [tree]


def _end(engine: Engine, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": engine.bootstrap, "group.id": "ends", "log_level": 0})
    try:
        return consumer.get_watermark_offsets(TopicPartition(engine.sink, partition), timeout=30)[1]
    finally:
        consumer.close()


@pytest.mark.slow
def test_slowest_trees_are_found(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """They are sorted and complete."""
    found = json.loads(says(capsys, "trace", "--slowest", "3", "--since", "1h", "--json"))
    took = [tree["ended"] - tree["begun"] for tree in found]
    assert len(found) == 3
    assert all(tree["outcome"] == "acked" for tree in found)
    assert took == sorted(took, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["why", "{source}/0/999999"], "{source}/0 ends at 500: there is no message at 999999 yet"),
        (["why", "{source}/17/0"], "topic '{source}' has partitions 0 to 5, but no partition 17"),
        (
            ["why", "other/0/0"],
            "no spout of 'forgetful' reads the topic 'other'; they read '{source}' (sentences)",
        ),
        (
            ["why", "{source}"],
            "{source}: give a message as TOPIC/PARTITION/OFFSET, such as sentences/3/10482",
        ),
        (["why"], "give either a message, TOPIC/PARTITION/OFFSET, or --oldest"),
        (
            ["why", "--oldest", "--component", "split"],
            "'split' is not a spout that reads Kafka; spouts that do: sentences",
        ),
        (
            ["trace", "{source}/0/999999"],
            "no tree of {source}/0/999999 was found; see `kstorm why {source}/0/999999`",
        ),
        (["trace", "--root", "moon"], "moon: a root is up to 16 hex digits"),
        (
            ["trace", "--root", "1", "--since", "5m"],
            "no tree of the root 0000000000000001 began in the last 5m",
        ),
        (["trace", "--sink", "{sink}/0/99999"], "{sink}/0 has the offsets 0 to "),
        (
            ["trace", "--sink", "{source}/0/1"],
            "{source}/0/1 has no header kstorm-roots: make its KafkaBolt write it, using",
        ),
        (
            ["trace", "--root", "1", "--slowest", "1"],
            "give one of these: a message TOPIC/PARTITION/OFFSET, --root, --sink,",
        ),
        (
            ["trace", "--slowest", "1", "--since", "soon"],
            "--since soon: give an age such as 30s, 10m, 2h or 1d",
        ),
        (
            ["why", "--oldest", "--topology", "examples.wordcount.topology:demo"],
            "the topology 'never-installed' has no topic",
        ),
    ],
)
def test_mistake_is_one_line_with_the_remedy(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.setenv("WORDCOUNT_NAME", "never-installed")
    names = {"source": engine.source, "sink": engine.sink}
    err = says(capsys, *(word.format(**names) for word in words), code=2)
    assert said.format(**names) in err
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("values", [False, True])
def test_message_contents_are_shown_only_if_allowed(
    engine: Engine, zookeeper: EmbeddedZooKeeper, values: bool
) -> None:
    """Otherwise it hides the values of tuples and the quotes in errors."""
    settings = Settings(
        topology="", bootstrap_servers=engine.bootstrap, zookeeper=zookeeper.connect
    )
    shape = outline_of(engine.processes.topology)
    answer = message_of(settings, shape, MessageId(engine.source, *place(BAD)), values=values)
    oldest = oldest_of(settings, shape, values=values)
    assert answer.verdict is not None
    assert "ValueError" in answer.verdict.said
    assert ("this is bad" in answer.verdict.said) is values
    assert ("this is bad" in repr(oldest.verdicts)) is values
    assert ("this is bad" in repr(answer.trees)) is values
    assert len(oldest.verdicts) == 2


@pytest.mark.slow
def test_queued_tuple_without_a_process(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """The group must have noticed the end of the process.

    This is the last test because it ends one.
    """
    engine.worker("sink-0").process.stop()
    engine.until(lambda: not engine.members("sink"), 60, "nobody is in the group of the sink")
    engine.produce([sentence(engine.produced)])
    last = message(engine, engine.produced - 1)
    engine.await_total("count", "emitted", 1)

    def is_queued() -> bool:
        return "queued at sink[0], " in says(capsys, "why", last)

    engine.until(is_queued, 60, "it is queued at the sink")
    assert "no process runs it" in says(capsys, "why", last)


@pytest.mark.slow
def test_why_names_the_forgotten_tuple_with_exactly_once(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only the replays differ."""
    once = {"KSTORM_TEST_GUARANTEE": "exactly_once"}
    with running(
        "forgetful",
        "once",
        kafka,
        zookeeper,
        tmp_path,
        monkeypatch,
        timeout_secs=300,
        settings=once,
    ) as engine:
        monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", kafka.bootstrap)
        monkeypatch.setenv("KSTORM_ZOOKEEPER", zookeeper.connect)
        monkeypatch.setenv("KSTORM_TOPOLOGY", REFERENCE)
        engine.produce(["the cow", "the moon", *(["a cow"] * 10)])
        engine.await_total("sentences", "acked", 11)
        engine.until(
            lambda: engine.offsets().get(0) == 2 and engine.offsets().get(1) == 0,
            60,
            "all else is stored",
        )
        forgotten, done = f"{engine.source}/1/0", f"{engine.source}/0/0"
        said = says(capsys, "why", "--oldest")
        assert said.startswith(
            f"{forgotten}: executed by count-0 (committed) and neither acked nor failed"
        )
        assert "replayed" not in said
        assert "✓ complete, proven" in says(capsys, "trace", done)
        assert says(capsys, "why", done).startswith(f"{done}: done")


@pytest.mark.slow
def test_trace_shows_each_attempt(
    run_topology: RunTopology,
    kafka: EmbeddedKafka,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first one failed half-way, and the second is complete.

    The topology has several ackers.
    """
    with run_topology("traced") as engine:
        monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", kafka.bootstrap)
        monkeypatch.setenv("KSTORM_TOPOLOGY", "tests.integration.topologies:traced")
        engine.produce(map(sentence, range(60)))
        engine.await_done("sentences")
        for number in (0, 59):
            first, second, *rows = says(capsys, "trace", message(engine, number)).splitlines()
            assert "attempt 1" in first
            assert "✗ failed by split:" in first
            assert "attempt 2" in second
            assert "✓ complete, proven" in second
            assert len(rows) > 3
        (tree,) = json.loads(says(capsys, "trace", message(engine, 59), "--attempt", "1", "--json"))
        assert (tree["outcome"], tree["origin"]["attempt"]) == ("failed", 1)
