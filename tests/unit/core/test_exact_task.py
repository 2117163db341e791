"""An exactly-once bolt task: failed executions have no effect, and held tuples are remembered."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.exactly_once.unfinished import (
    MARK,
    UnfinishedTuple,
    check_changelog_pair,
    read_pair,
)
from kstorm.errors import FrameError
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    OutputFieldsDeclarer,
    Tuple,
    TupleBatch,
)
from tests.unit.core.exact_harness import ExactHarness


class Word:
    """Declares words."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")


class Pairs(Word, Bolt):
    """Holds a tuple until the next arrives, then emits a tuple anchored to both.

    It raises at the steps that a test names.
    """

    def __init__(self, raises_at: set[int] | None = None) -> None:
        self.steps, self.raises_at = 0, raises_at or set()
        self.held: list[Tuple] = []
        self.harness: Any = None

    def step(self) -> None:
        self.steps += 1
        if self.steps in self.raises_at:
            raise ValueError(f"step {self.steps}")

    def execute(self, tuple: Tuple) -> None:
        self.step()
        state = self.harness.state
        state.put("seen", [*state.get("seen", []), tuple["word"]])
        self.harness.task.write("sink", [None], [tuple["word"]])
        self.step()
        if not self.held:
            self.held.append(tuple)
            return
        other = self.held.pop()
        both = "".join(sorted((other["word"], tuple["word"])))
        self.collector.emit([both], [other, tuple])
        self.collector.ack(other)  # the task reminds the bolt of it from now on
        self.step()
        self.collector.ack(tuple)
        self.step()


@given(st.sets(st.integers(1, 40), max_size=8))
def test_every_effect_counts_once_despite_errors(raises_at: set[int]) -> None:
    """A join with state and a sink raises at any step. Each word is seen, written and joined once.

    Nothing is left open, and each XOR is 0 when the sent tuples are acked too.
    """
    bolt = Pairs(raises_at)
    made = bolt.harness = ExactHarness(bolt, topology_bolt_retry_limit=100)
    made.give(1, "a", "b")
    made.give(2, "c", "d")
    for _ in range(40):
        made.retry(100.0)
    assert (
        sorted(made.state.get("seen"))
        == sorted(record.value for record in made.written())
        == ["a", "b", "c", "d"]
    )
    assert (made.left(), bolt.held, made.outbox.letters) == ({}, [], [])
    sent = made.sent_with_trees()
    assert sorted("".join(word for word, _ in sent)) == ["a", "b", "c", "d"]
    trees = made.acks()
    for _, pairs in sent:
        for root, edge in pairs.items():
            trees[root] ^= edge
    assert trees == {
        root: root for root in (101, 102, 201, 202)
    }  # the edges of the received tuples
    assert made.task.unfinished == 0


@pytest.mark.parametrize("raises_at", [set(), {1}, {1, 2}])
def test_held_tuples_count_as_unfinished_at_their_next_owner(raises_at: set[int]) -> None:
    """Their first execution was counted by the previous owner, and their ack is counted here."""
    before = Pairs()
    before.harness = old = ExactHarness(before)
    old.give(1, "a")
    stored = {key: value for key, value in old.task.rows.changes() if value}
    rows = [one for key, value in stored.items() for one in read_pair(key, value)[1]]
    assert len(rows) == old.task.unfinished == 1
    after = Pairs(raises_at)
    after.harness = new = ExactHarness(after)
    for _ in new.task.resume([(1, new.frame(1, "a"), rows)], stored):
        pass
    assert new.task.unfinished == 1
    new.give(2, "b")
    assert (len(new.sent_with_trees()), new.task.unfinished) == (1, 0)


class Cautious(Word, BasicBolt):
    """Emits each word twice. Raises at the steps that a test names."""

    def __init__(self, raises_at: set[int]) -> None:
        self.steps, self.raises_at = 0, raises_at

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        for _ in range(2):
            collector.emit([tuple["word"]])
            self.steps += 1
            if self.steps in self.raises_at:
                raise ValueError(f"step {self.steps}")


@given(st.sets(st.integers(1, 20), max_size=8))
def test_a_basic_bolt_emits_each_tuple_once(raises_at: set[int]) -> None:
    """A failed execution sends nothing. Each tree's XOR is 0 when the sent tuples are acked too."""
    made = ExactHarness(Cautious(raises_at), topology_bolt_retry_limit=100)
    made.give(1, "a", "b", "c")
    sent, trees = made.sent(), made.acks()
    for _ in range(20):
        made.retry(100.0)
        sent += made.sent()
        for root, val in made.acks().items():
            trees[root] = trees.get(root, 0) ^ val
    assert sorted(word for word, _, _ in sent) == ["a", "a", "b", "b", "c", "c"]
    for _, root, edge in sent:
        trees[root] ^= edge
    assert trees == {101: 101, 102: 102, 103: 103}  # the edges of the received tuples


def test_a_failed_execution_leaves_nothing() -> None:
    """It leaves no tuple, ack, record or change. Its tuple waits, and is stored as a full one."""
    bolt = Pairs({2})
    made = bolt.harness = ExactHarness(bolt)
    made.give(1, "a")
    assert (made.sent(), made.acks(), made.written(), made.state.take_changes()) == ([], {}, [], [])
    assert made.left() == {1: [UnfinishedTuple(0, 1, True, 0)]}
    assert made.left() == {}
    assert made.errors == ["step 2"]


def test_the_pause_grows_up_to_the_limit() -> None:
    """It is 100 ms, 200 ms and so on up to the maximum, also after a huge number of attempts."""
    made = ExactHarness(Pairs(), topology_bolt_retry_delay_max_ms=1000)
    assert [made.task._pause_before(attempt) for attempt in (1, 2, 4, 5, 3000)] == [
        0.1,
        0.2,
        0.8,
        1.0,
        1.0,
    ]


class Refuses(Word, BasicBolt):
    """Rejects every tuple."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit([tuple["word"]])
        raise ValueError("never")


def test_a_tuple_without_further_retries_becomes_a_dead_letter() -> None:
    """The dead letter holds the tuple and its place. The tree continues without the tuple."""
    made = ExactHarness(Refuses(), topology_bolt_retry_limit=2)
    made.give(7, "a", "b")
    for _ in range(3):
        assert not made.outbox.letters or made.task.retried == 4
        made.retry(10.0)
    found = [to_store.letter for to_store in made.outbox.letters]
    assert [
        (letter.topic, letter.partition, letter.offset, letter.attempts) for letter in found
    ] == [("t.bolt", 0, 7, 3)] * 2
    assert [letter.value for letter in found] == [
        b'{"stream":"default","row":%d,"values":{"word":"%s"}}' % pair
        for pair in [(0, b"a"), (1, b"b")]
    ]
    assert (made.sent(), made.acks(), made.left()) == ([], {701: 701, 702: 702}, {})


class Batches(Word, Bolt):
    """Emits a batch anchored to its input, holds the input, and calls the test's function for it."""

    def __init__(self) -> None:
        self.held: list[TupleBatch] = []
        self.reminded: list[str] = []
        self.raises = False

    def execute(self, tuple: Tuple) -> None:
        self.reminded.append(tuple["word"])

    def execute_batch(self, batch: TupleBatch) -> Any:
        if self.raises:
            self.collector.ack_batch(self.held.pop())
            raise ValueError("after the ack")
        self.held.append(batch)
        self.collector.emit_batch([["x"] * len(batch)], batch)


def test_held_batch_is_stored_with_its_edges_until_its_ack() -> None:
    """Otherwise the next owner would execute finished tuples again, or ack without sent edges."""
    made = ExactHarness(bolt := Batches())
    made.give(1, "a", "b")
    edges = [edge for _, _, edge in made.sent()]
    assert made.left() == {
        1: [UnfinishedTuple(row, 0, False, edge) for row, edge in enumerate(edges)]
    }
    assert made.left() == {}
    made.task.collector.ack_batch(bolt.held.pop())
    assert made.left() == {1: None}
    assert made.acks() == {101: 101 ^ edges[0], 102: 102 ^ edges[1]}


def test_failed_held_batch_keeps_its_edges() -> None:
    """Its tuples are retried one by one. Their acks contain the edges of earlier emits."""
    made = ExactHarness(bolt := Batches())
    made.give(1, "a", "b")
    edges = [edge for _, _, edge in made.sent()]
    batch = bolt.held.pop()
    made.task.collector.fail_batch(batch)
    made.task.collector.ack_batch(batch)  # too late
    made.retry(0.0)
    assert made.acks() == {}
    assert made.left() == {
        1: [UnfinishedTuple(row, 1, True, edge) for row, edge in enumerate(edges)]
    }
    made.retry(10.0)
    assert bolt.reminded == ["a", "b"]


def test_a_bolt_is_reminded_of_a_batch_that_it_acked_in_an_execution_that_failed() -> None:
    """The bolt may have dropped the tuples, which are unacked. They are executed again.

    The old batch is no longer valid.
    """
    made = ExactHarness(bolt := Batches())
    made.give(1, "a", "b")
    edges = [edge for _, _, edge in made.sent()]
    held, bolt.raises = bolt.held[0], True
    made.give(2, "c")
    assert bolt.reminded == ["a", "b", "c"]
    made.task.collector.ack_batch(held)
    assert made.acks() == {}
    assert made.left() == {
        1: [UnfinishedTuple(row, 0, False, edge) for row, edge in enumerate(edges)],
        2: [UnfinishedTuple(0, 0, False, 0)],
    }


class GivesUp(Word, Bolt):
    """Holds tuples, and fails the first when the next one arrives."""

    def __init__(self) -> None:
        self.held: list[Tuple] = []

    def execute(self, tuple: Tuple) -> None:
        if self.held and self.held[0]["word"] == "a" != tuple["word"]:
            self.collector.fail(self.held.pop(0))
        self.held.append(tuple)


def test_tuple_failed_during_a_reminder_is_retried() -> None:
    """This holds although the reminding execution has no other effect."""
    made = ExactHarness(GivesUp())
    rows = [UnfinishedTuple(0, 0, False, 0), UnfinishedTuple(1, 0, False, 0)]
    for _ in made.task.resume([(1, made.frame(1, "a", "b"), rows)], {}):
        pass
    assert made.left() == {1: [UnfinishedTuple(0, 1, True, 0), UnfinishedTuple(1, 0, False, 0)]}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (MARK, b"\x90"),
        (MARK + bytes(9), b"\x90"),
        (MARK + bytes(8), b""),
        (MARK + bytes(8), b"\xc1"),
        (MARK + bytes(8), b"\x91\x94\xff\x00\xc2\x00"),  # row -1
        (MARK + bytes(8), b"\x91\x93\x00\x00\xc2"),
        (b"\xfe", b"\x01"),
        (b"word", b"\xc1"),
    ],
)
def test_foreign_changelog_pair_is_refused(key: bytes, value: bytes) -> None:
    """A foreign pair is refused when the changelog is read, and not later."""
    with pytest.raises(FrameError):
        check_changelog_pair(key, value)
    check_changelog_pair(MARK + bytes(8), None)
    assert read_pair(MARK + (5).to_bytes(8, "big"), b"\x91\x94\x00\x01\xc3\x07") == (
        5,
        [UnfinishedTuple(0, 1, True, 7)],
    )
