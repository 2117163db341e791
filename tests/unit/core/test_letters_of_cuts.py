"""Dead letters of tuples that turn out to be unsendable when an epoch is cut."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from kstorm.core.dead_letters import DeadLetter, decode_letter
from kstorm.core.engine import InputRecord
from kstorm.core.engine.effects import Transact
from kstorm.core.wire import VERSION, TupleFrame, encode, pack_ids
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    OutputFieldsDeclarer,
    TopologyBuilder,
    Traced,
    Tuple,
)
from kstorm.topology.config import EXACTLY_ONCE
from tests.unit.core.engines import Driven, exact_bolt_engine, exact_spout_engine
from tests.unit.core.epoch_harness import Words, answer

LIMIT = 2000
TASK = 1
"""The tested task. Its input topic is `t.bolt`, partition 1."""


class Grows(BasicBolt):
    """Emits a list, and makes it too long for a record afterwards if the word is "big".

    The word "again" fails once.
    """

    def __init__(self) -> None:
        self.failed = False

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("words")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        words = [tuple["word"]]
        collector.emit([words])
        if tuple["word"] == "again" and not self.failed:
            self.failed = True
            raise ValueError("once")
        if tuple["word"] in ("big", "again"):
            words.append("x" * LIMIT)


class Joins(Bolt):
    """Holds its tuples until "end". Then it emits a list for each of them, and makes it too long."""

    def __init__(self) -> None:
        self.held: list[Tuple] = []

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("words")

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tuple: Tuple) -> None:
        self.held.append(tuple)
        if tuple["word"] != "end":
            return
        for one in self.held:
            words = [one["word"]]
            self.collector.emit([words], one)
            words.append("x" * LIMIT)
            self.collector.ack(one)


class TracedWords(Traced, Words):
    """Emits a list that becomes too long, from a message with coordinates."""

    def next_tuple(self) -> None:
        self.at += 1
        words = [str(self.at)]
        self.collector.emit([words], self.at)
        words.append("x" * LIMIT)

    def origins(self, message_ids: Sequence[Any]) -> Iterable[tuple[str, int, int, Sequence[int]]]:
        return [("lines", 4, 1, [100 + message_ids[0]])]


def config() -> Config:
    return Config(
        topology_processing_guarantee=EXACTLY_ONCE,
        topology_acker_tasks=1,
        topology_frame_max_bytes=LIMIT,
        topology_bolt_retry_initial_delay_ms=1000,
    )


def driven(bolt: Bolt | BasicBolt) -> Driven:
    builder = TopologyBuilder("t", config())
    builder.set_spout("words", Words())
    builder.set_bolt("bolt", bolt, 2).shuffle_grouping("words")
    builder.set_bolt("sink", Bolt()).shuffle_grouping("bolt")
    made = Driven(exact_bolt_engine(builder.build(), "bolt", ()))
    made.assign(t1=0)
    return made


def frame(offset: int, *words: str, roots: Sequence[int] = ()) -> InputRecord:
    """Returns a frame whose trees are offset * 10, offset * 10 + 1 and so on."""
    ids = pack_ids(roots or [offset * 10 + row for row in range(len(words))])
    made = TupleFrame(VERSION, "words", 1, "default", len(words), ids, ids, {}, [list(words)])
    return InputRecord(offset, encode(made))


def letters_of(made: Driven) -> list[DeadLetter]:
    """Cuts epochs until nothing is left, and returns their letters."""
    found = []
    made.tick(0.5)
    while transacts := made.take(Transact):
        (transact,) = transacts
        answer(made, transact)
        made.tick(0.1)
        found += [
            decode_letter(record.value or b"")
            for record in transact.records
            if record.topic == "t.__dead_letters"
        ]
    return found


def place(letter: DeadLetter) -> tuple[str, int, int, int]:
    return letter.topic, letter.partition, letter.offset, letter.row


def test_letter_names_the_input_of_a_basic_bolts_emit() -> None:
    made = driven(Grows())
    made.poll(TASK, frame(7, "a", "b"))
    assert letters_of(made) == []
    made.poll(TASK, frame(8, "c"), frame(9, "d", "big", "e"))
    (letter,) = letters_of(made)
    assert (letter.component, letter.kind, letter.roots) == ("bolt", "too_large", [f"{91:016x}"])
    assert (place(letter), letter.attempts) == (("t.bolt", TASK, 9, 1), 1)
    assert json.loads(letter.value or b"") == {
        "stream": "default",
        "row": 1,
        "values": {"word": "big"},
    }


def test_letter_names_the_input_of_a_retry() -> None:
    """The frame was executed in an earlier epoch."""
    made = driven(Grows())
    made.poll(TASK, frame(5, "a", "again"))
    assert letters_of(made) == []
    made.tick(2)
    (letter,) = letters_of(made)
    assert (place(letter), letter.attempts) == (("t.bolt", TASK, 5, 1), 2)
    assert b"again" in (letter.value or b"")


def test_letter_names_a_held_tuple_of_an_earlier_epoch() -> None:
    made = driven(Joins())
    made.poll(TASK, frame(5, "a", "b"))
    assert letters_of(made) == []
    made.poll(TASK, frame(6, "end"))
    assert [place(letter)[2:] for letter in letters_of(made)] == [(5, 0), (5, 1), (6, 0)]


def test_letter_says_if_several_tuples_of_its_tree_are_possible() -> None:
    """A tree may have several tuples in one task. An emit knows its tree only."""
    made = driven(Grows())
    made.poll(TASK, frame(4, "a"))  # its epoch is cut at once, and the next one is not due then
    answer(made, made.take(Transact)[0])
    made.poll(TASK, frame(5, "a", "big", roots=[3, 4]), frame(6, "c", "d", roots=[4, 4]))
    (letter,) = letters_of(made)
    assert (place(letter), letter.value) == (("t.bolt", TASK, 5, 1), None)
    assert "for this tuple or for one of 2 others of its trees" in letter.reason


def test_tuple_without_a_tree_has_a_letter_without_coordinates() -> None:
    made = driven(Grows())
    made.poll(TASK, frame(5, "big", roots=[0]))
    (letter,) = letters_of(made)
    assert (letter.kind, letter.offset, letter.roots) == ("too_large", -1, [])


def test_letter_of_a_spout_names_its_message() -> None:
    builder = TopologyBuilder("t", config())
    builder.set_spout("words", TracedWords())
    builder.set_bolt("sink", Bolt()).shuffle_grouping("words")
    made = Driven(exact_spout_engine(builder.build(), "words"))
    made.assign(t0=0)
    for _ in range(3):
        made.do(made.engine.emit(made.now))  # type: ignore[attr-defined]
    found = letters_of(made)
    assert [place(letter) for letter in found] == [
        ("lines", 4, 101 + number, -1) for number in range(len(found))
    ]
    assert len(found) >= 3
