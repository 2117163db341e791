"""A message that cannot be emitted becomes a dead letter, and the rest of its batch is emitted."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from kstorm.kafka import (
    KAFKA,
    ExponentialBackoffRetryManager,
    KafkaHosts,
    KafkaSpout,
    ProcessingGuarantee,
    SpoutConfig,
)
from kstorm.kafka.emitting import emit_rows
from kstorm.testing import LocalCluster
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    CustomStreamGrouping,
    Fields,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)
from tests.unit.kafka.one_by_one import emit_next
from tests.unit.kafka.test_partition_manager import Words, make, message

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import FakeCollector, World


class Odd:
    """A multi-scheme with one tuple per word.

    `None` and `five` are invalid, `two` has too many values.
    """

    output_fields = Fields("word")

    def deserialize(self, value: bytes) -> Any:
        """Returns None or rows of values."""
        made: dict[str, Any] = {"None": None, "two": ("t", "wo"), "five": 5}
        return [made.get(word, (word,)) for word in value.decode().split()]


class Picky(CustomStreamGrouping):
    """Raises on one value."""

    def prepare(
        self, context: TopologyContext, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None:
        self.targets = target_tasks

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        if values[0] == "raise":
            raise LookupError("no task for it")
        return self.targets[:1]


class Take(BasicBolt):
    """Emits its input, so that the test sees it."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(tuple.values)


def topology(**settings: Any) -> Topology:
    """Builds a spout on the test's topic and two bolts, one of them with the picky grouping."""
    settings.setdefault("retry_initial_delay_ms", 0)
    config = SpoutConfig(KafkaHosts(), "sentences", "/r", "words", scheme=Odd(), **settings)
    builder = TopologyBuilder("t")
    builder.set_spout("lines", KafkaSpout(config))
    builder.set_bolt("all", Take()).shuffle_grouping("lines")
    builder.set_bolt("picked", Take()).custom_grouping("lines", Picky())
    return builder.build()


BAD = [
    (
        "raise",
        r"cannot be emitted: Picky\.choose_tasks raised LookupError for a tuple of 'lines' .*no task for it",
    ),
    ("fine raise so far", r"cannot be emitted: Picky\.choose_tasks raised LookupError"),
    (
        "None",
        (
            "cannot be emitted: its scheme returned None in place of a tuple's values; to skip a "
            "message"
        ),
    ),
    ("fine None", "cannot be emitted: its scheme returned None"),
    (
        "two",
        "cannot be emitted: 'lines' emits 2 values on the stream 'default', which declares 1 fields",
    ),
    (
        "two fine",
        r"cannot be emitted: its scheme returned tuples of \[1, 2\] values, but all must have the same length",
    ),
    ("five", "cannot be emitted: 'lines' emits 5, which is of type int: emit a list"),
]


@pytest.mark.parametrize("at", [0, 250, 499])
@pytest.mark.parametrize(("bad", "reason"), BAD[:3])
def test_499_neighbours_of_a_bad_message_are_processed(
    world: "World", bad: str, reason: str, at: int
) -> None:
    """Its batch has 500 messages. They must not hang until the process exits."""
    for offset in range(500):
        world.source.produce(0, offset, body=bad.encode() if offset == at else b"w%d" % offset)
    with LocalCluster(topology(), resources={KAFKA: world.ports}) as cluster:
        cluster.advance_time(3)  # the spout first looks up its partitions
        (letter,) = cluster.dead_letters
        assert re.search(reason, letter.reason)
        assert (letter.topic, letter.partition, letter.offset, letter.value) == (
            "sentences",
            0,
            at,
            bad.encode(),
        )
        expected = [[f"w{offset}"] for offset in range(500) if offset != at]
        for bolt in ("all", "picked"):
            assert sorted(map(list, cluster.emitted(bolt))) == sorted(expected)
        spout: Any = cluster.instance("lines")
        assert spout.metrics()["pending"] == 0
    assert world.offsets.offset() == 500


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_a_message_is_emitted_whole_or_not_at_all(world: "World", bad: str, reason: str) -> None:
    """If one tuple cannot be emitted, none is. The dead letter gives the reason."""
    for offset, body in enumerate(["a b", bad, "c"]):
        world.source.produce(0, offset, body=body.encode())
    with LocalCluster(topology(), resources={KAFKA: world.ports}) as cluster:
        cluster.advance_time(3)  # the spout first looks up its partitions
        assert [letter.offset for letter in cluster.dead_letters] == [1]
        assert re.search(reason, cluster.dead_letters[0].reason), cluster.dead_letters[0].reason
        assert sorted(map(list, cluster.emitted("all"))) == [["a"], ["b"], ["c"]]
        assert sorted(map(list, cluster.emitted("picked"))) == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    "guarantee", [ProcessingGuarantee.AT_MOST_ONCE, ProcessingGuarantee.NO_GUARANTEE]
)
def test_untracked_messages_too(world: "World", guarantee: ProcessingGuarantee) -> None:
    """This holds for every guarantee."""
    for offset, body in enumerate([b"a", b"raise", b"None", b"b"]):
        world.source.produce(0, offset, body=body)
    with LocalCluster(
        topology(processing_guarantee=guarantee), resources={KAFKA: world.ports}
    ) as cluster:
        cluster.advance_time(3)  # the spout first looks up its partitions
        assert [letter.offset for letter in cluster.dead_letters] == [1, 2]
        assert sorted(map(list, cluster.emitted("all"))) == [["a"], ["b"]]
    assert world.offsets.offset() == 4


def test_a_retry_that_cannot_be_emitted_is_a_dead_letter(collector: "FakeCollector") -> None:
    """A grouping may treat a value differently on the second attempt."""
    manager = make(collector, scheme=Words())
    manager.fill([message(0, b"to be")])
    emit_next(manager, collector)
    manager.fail(collector.take()[0][1], 0.0)
    collector.refuse = LookupError("gone")
    assert emit_next(manager, collector)
    (letter,) = collector.letters
    assert (letter.offset, letter.attempts, letter.reason) == (
        0,
        2,
        "cannot be emitted: LookupError: gone",
    )
    letter.stored()
    assert (manager.pending, manager.failures.waiting, manager.last_completed_offset) == (0, 0, 1)


class Moody(ExponentialBackoffRetryManager):
    """Raises in every method."""

    def retry_further(self, offset: int) -> bool:
        raise RuntimeError("not today")

    def done(self, offset: int) -> None:
        raise RuntimeError("nor forgotten")


def test_exception_of_a_retry_manager_loses_no_message(collector: "FakeCollector") -> None:
    """The failed message becomes a dead letter. The neighbours of an unreadable one are emitted."""
    manager = make(collector, failed_message_retry_manager=Moody, scheme=Odd())
    manager.fill([message(0, b"a"), message(1, b"\xff"), message(2, b"b")])
    while emit_next(manager, collector):
        pass
    emitted = dict(collector.take())
    assert sorted(emitted) == [0, 2]
    manager.fail(emitted[0], 0.0)
    manager.ack(emitted[2])
    assert [letter.offset for letter in collector.letters] == [1, 0]
    assert (
        collector.letters[1].reason
        == "failed, and its retry manager raised RuntimeError: not today"
    )
    assert {str(error) for error in collector.errors} == {"nor forgotten"}
    for letter in collector.letters:
        letter.stored()
    assert (manager.pending, manager.last_completed_offset) == (0, 3)


class Guessing(ExponentialBackoffRetryManager):
    """Names a message that never failed, until that message is done."""

    guess: int | None = 1

    def next_failed_message_to_retry(self, now: float) -> int | None:
        return self.guess if self.guess is not None else super().next_failed_message_to_retry(now)

    def done(self, offset: int) -> None:
        self.guess = None


@pytest.mark.parametrize("guess", [1, 77])
def test_retry_of_an_unknown_message_is_ignored(collector: "FakeCollector", guess: int) -> None:
    """A message in flight is not emitted twice, and an unknown one does not block the partition."""
    manager = make(collector, failed_message_retry_manager=type("G", (Guessing,), {"guess": guess}))
    manager.fill([message(0), message(1)])
    while emit_next(manager, collector):
        pass
    manager.fail(dict(collector.take())[0], 0.0)
    assert not emit_next(manager, collector)
    assert emit_next(manager, collector)
    assert [offset for offset, _ in collector.take()] == [0]


def test_batch_is_halved_to_find_the_bad_message() -> None:
    """The halves are cut between messages. One bad message in 500 takes some 18 calls, not 500."""
    calls = 0

    class Counting:
        def emit_batch(self, columns: Any, ids: Any = None, stream: str = "") -> Any:
            nonlocal calls
            calls += 1
            if 321 in columns[0]:
                raise ValueError("321")

        def emit(self, values: Any, id: Any = None, stream: str = "", task: Any = None) -> Any:
            self.emit_batch([list(values)])

    ids = [object() for _ in range(100) for _ in range(5)]
    ids = [ids[at - at % 5] for at in range(500)]
    refused: list[Any] = []
    collector: Any = Counting()
    emit_rows(
        collector,
        [(at,) for at in range(500)],
        ids,
        "s",
        tracked=True,
        refuse=lambda id, why, error: refused.append(id),
    )
    assert refused == [ids[321]]
    assert calls < 20
