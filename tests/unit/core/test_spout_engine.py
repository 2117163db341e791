"""A spout's process: the order of sends, its rests, and the end of a task with open trees."""

from functools import partial
from math import inf
from typing import Any

import pytest

from kstorm.core.dead_letters import LetterStamp, decode_letter
from kstorm.core.engine import InputRecord
from kstorm.core.engine.effects import Close, Effect, Release, Send
from kstorm.core.engine.polls import MOST_FRAMES
from kstorm.core.wire import (
    VERSION,
    AckFrame,
    CompletionFrame,
    decode,
    encode,
    pack_ids,
    unpack_ids,
)
from kstorm.topology import (
    Bolt,
    Config,
    Note,
    OutputFieldsDeclarer,
    Spout,
    Topology,
    TopologyBuilder,
    Tuple,
)
from tests.unit.core.engines import Driven, Journal, spout_engine, topics


class Numbers(Spout):
    """Emits the test's numbers, and records its calls for all tasks."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.notes: list[str] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "Numbers":
        made = type(self)()
        made.waiting, made.notes = self.waiting, self.notes
        return made

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("number")

    def next_tuple(self) -> None:
        if self.waiting:
            number = self.waiting.pop(0)
            self.collector.emit([number], number)

    def activate(self) -> None:
        self.notes.append("activate")

    def deactivate(self) -> None:
        self.notes.append("deactivate")

    def ack(self, message_id: Any) -> None:
        self.notes.append(f"ack {message_id}")

    def close(self) -> None:
        self.notes.append("close")


class Sink(Bolt):
    def execute(self, tuple: Tuple) -> None:
        pass


def topology(spout: Spout, **settings: Any) -> Topology:
    builder = TopologyBuilder("t", Config(topology_acker_tasks=1, **settings))
    builder.set_spout("spout", spout, 2)
    builder.set_bolt("sink", Sink()).shuffle_grouping("spout")
    return builder.build()


class Spouts(Driven):
    """A spout engine driven by hand."""

    def __init__(self, spout: Spout, journal: Journal | None = None, **settings: Any) -> None:
        self.spouts = spout_engine(topology(spout, **settings), "spout", journal)
        super().__init__(self.spouts)

    def emit(self) -> list[Effect]:
        return self.do(self.spouts.emit(self.now))

    def begun(self) -> list[int]:
        """Removes the sent records, and returns the roots of the trees that began."""
        records = [
            record
            for send in self.take(Send)
            for record in send.records
            if record.topic == "t.__acker"
        ]
        return [
            root
            for record in records
            for root in unpack_ids(decode(AckFrame, record.value).init_roots)
        ]

    def complete(self, task: int, *roots: int) -> list[Effect]:
        return self.poll(
            task, InputRecord(0, encode(CompletionFrame(VERSION, 0, acked=pack_ids(roots))))
        )

    def revoke(self, *tasks: int) -> list[Effect]:
        return self.do(self.spouts.revoked(tasks, self.now))


def released(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, Close | Release)]


# Turns.


def test_tuples_are_sent_before_the_news_that_their_trees_begin() -> None:
    """Otherwise the first partial ack could complete the tree."""
    numbers = Numbers()
    spout = Spouts(numbers)
    spout.assign(t0=0)
    numbers.waiting += [1, 2]
    spout.emit()
    assert topics(spout.take(Send)) == ["t.sink", "t.__acker"]
    assert spout.spouts.in_flight == 2


def test_a_turn_asks_until_there_is_nothing_or_the_share_is_used_up() -> None:
    """A spout with endless input must not delay completions and timeouts."""
    numbers = Numbers()
    spout = Spouts(numbers)
    spout.assign(t0=0)
    numbers.waiting += range(1, 251)
    left = []
    for _ in range(3):
        spout.emit()
        left.append(len(numbers.waiting))
    assert left == [150, 50, 0]


def test_turns_without_a_tuple_are_ever_further_apart() -> None:
    """Rests grow up to 16 times. The first tuple ends them."""
    numbers = Numbers()
    spout = Spouts(numbers, topology_sleep_spout_wait_strategy_time_ms=2)
    spout.assign(t0=0)
    rests = []
    for _ in range(7):
        spout.emit()
        rests.append(spout.spouts.rest)
    assert rests == pytest.approx([0.002, 0.004, 0.008, 0.016, 0.032, 0.032, 0.032])
    numbers.waiting.append(1)
    spout.emit()
    assert spout.spouts.rest == 0
    spout.emit()
    assert spout.spouts.rest == pytest.approx(0.002)


def test_quiet_spouts_rest_longer() -> None:
    """The driver ends a long rest as soon as the source has messages."""
    quiet = True
    spout = Spouts(Numbers(), topology_sleep_spout_wait_strategy_time_ms=10)
    spout.spouts.quiet = lambda: quiet
    spout.assign(t0=0)

    def rests(turns: int) -> list[float]:
        found = []
        for _ in range(turns):
            spout.emit()
            found.append(spout.spouts.rest)
        return found

    assert rests(8) == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5])
    quiet = False
    assert rests(2) == pytest.approx([0.16, 0.16])


def test_spouts_get_their_turns_when_they_are_due() -> None:
    """Only the clock triggers them: the first at once, and the others after each rest."""
    numbers = Numbers()
    spout = Spouts(numbers)
    spout.assign(t0=0)

    def wake(seconds: float) -> list[int]:
        spout.now += seconds
        spout.do(spout.spouts.wake(spout.now))
        return spout.begun()

    numbers.waiting.append(1)
    assert spout.spouts.due <= spout.now
    assert len(wake(0)) == 1
    assert spout.spouts.due == spout.now  # it emitted, so it does not rest
    assert wake(0) == []
    rest = spout.spouts.due - spout.now
    assert rest == pytest.approx(0.001)
    numbers.waiting.append(2)
    assert wake(rest / 2) == []
    assert len(wake(rest)) == 1


def test_turn_is_not_due_while_one_is_taken() -> None:
    """A driver that follows `due` would otherwise start a second turn in a busy loop."""
    spout = Spouts(Numbers())
    spout.assign(t0=0)
    (turn,) = spout.spouts.emit(spout.now)
    assert spout.spouts.due == inf
    assert spout.spouts.wake(spout.now) == []
    spout.do([turn])
    assert spout.spouts.due < inf


def test_polls_wait_behind_all_other_work() -> None:
    """Each step of a release waits for at most one poll, and not for all records in hand."""
    numbers = Numbers()
    spout = Spouts(numbers)
    spout.assign(t0=0)
    engine = spout.spouts
    (turn,) = engine.emit(spout.now)
    poll = MOST_FRAMES * [InputRecord(0, encode(CompletionFrame(VERSION, 0)))]
    for _ in range(3):
        assert engine.arrived([(engine.tenures[0], poll)], spout.now) == []
    assert engine.revoked([0], spout.now) == []
    spout.do([turn])
    assert numbers.notes[-1] == "close"
    assert engine.frames_in == MOST_FRAMES
    assert engine.intake.records == 0  # a revoked record no longer counts as in hand


def test_deactivated_topology_emits_nothing_and_gets_completions() -> None:
    numbers = Numbers()
    spout = Spouts(numbers)
    spout.assign(t0=0)
    numbers.waiting.append(1)
    spout.emit()
    roots = spout.begun()
    spout.spouts.active = False
    numbers.waiting.append(2)
    assert spout.emit() == []
    assert not spout.spouts.emits
    spout.complete(0, *roots)
    assert numbers.notes == ["activate", "deactivate", "ack 1"]
    spout.spouts.active = True
    spout.emit()
    assert len(spout.begun()) == 1
    assert numbers.notes[-1] == "activate"


def test_a_spout_that_was_never_active_is_not_deactivated() -> None:
    """The process gets the task while the topology is inactive."""
    numbers = Numbers()
    spout = Spouts(numbers)
    spout.spouts.active = False
    spout.assign(t0=0)
    spout.emit()
    spout.revoke(0)
    assert numbers.notes == ["close"]


def test_an_activate_that_raises_ends_the_process() -> None:
    """The spout may be partially activated."""

    class Broken(Numbers):
        def activate(self) -> None:
            raise RuntimeError("no source")

    spout = Spouts(Broken())
    spout.assign(t0=0)
    with pytest.raises(RuntimeError, match="no source"):
        spout.emit()


# Invalid input.


def test_invalid_completions_become_dead_letters() -> None:
    """The spout still receives the next completion."""
    numbers = Numbers()
    spout = Spouts(numbers)
    spout.assign(t1=0)
    numbers.waiting.append(1)
    spout.emit()
    (root,) = spout.begun()
    good = encode(CompletionFrame(VERSION, 0, acked=pack_ids([root])))
    odd = encode(CompletionFrame(VERSION, 0, acked=b"odd"))
    spout.poll(
        1, InputRecord(3, b"?"), InputRecord(4, odd), InputRecord(5, None), InputRecord(6, good)
    )
    assert topics(spout.take(Send)) == ["t.__dead_letters"] * 3
    assert spout.spouts.letters.count == 3
    assert numbers.notes == ["activate", "ack 1"]


def test_completions_that_cannot_be_decoded_are_a_dead_letter() -> None:
    spout = Spouts(Numbers())
    spout.assign(t1=0)
    spout.poll(1, InputRecord(3, None, undecodable="as told", offsets=4))
    (letter,) = [
        decode_letter(record.value) for send in spout.take(Send) for record in send.records
    ]
    assert (letter.topic, letter.partition, letter.offset, letter.reason) == (
        "t.spout.__completions",
        1,
        3,
        "as told",
    )


def test_spout_is_notified_when_its_dead_letter_is_stored() -> None:
    """The callback does not come with the send, because the letter could still be lost."""
    stored: list[int] = []

    class Giving(Numbers):
        def next_tuple(self) -> None:
            if self.waiting:
                number = self.waiting.pop()
                self.collector.dead_letter(
                    "no number", value=b"x", on_stored=partial(stored.append, number)
                )

    giving = Giving()
    spout = Spouts(giving)
    spout.assign(t0=0)
    giving.waiting.append(7)
    spout.emit()
    assert topics(spout.take(Send)) == ["t.__dead_letters"]
    assert stored == []
    spout.deliver()
    assert stored == [7]


# Tasks that leave.


def test_a_letter_has_the_component_whose_task_failed_and_what_the_process_puts_on_it() -> None:
    """The unknown task 99 gets no component name.

    Letters without coordinates do not replace each other.
    """

    class Losing(Numbers):
        def next_tuple(self) -> None:
            if self.waiting:
                error = Note(self.waiting.pop(0), "KeyError")
                self.collector.dead_letter("lost", value=b"x", kind="failed", error=error)

    losing, words = Losing(), iter("abc")
    losing.waiting += [0, 3, 99]
    spout = Spouts(losing)
    spout.spouts.letters.stamp = lambda: LetterStamp(at=1700, version="v7", unique=next(words))
    spout.assign(t0=0)
    for _ in range(3):
        spout.emit()
    records = [record for send in spout.take(Send) for record in send.records]
    letters = [decode_letter(record.value) for record in records]
    errors = [letter.error for letter in letters if letter.error is not None]
    assert [(error.component, error.task) for error in errors] == [
        ("spout", 1),
        ("sink", 3),
        ("", 99),
    ]
    assert {(letter.at, letter.version, letter.kind) for letter in letters} == {
        (1700, "v7", "failed")
    }
    assert [record.key for record in records] == [b"spout/1/a", b"spout/1/b", b"spout/1/c"]


def with_open_tree(journal: Journal | None = None, **settings: Any) -> tuple[Spouts, Numbers, int]:
    """Builds one task with one open tree."""
    numbers = Numbers()
    spout = Spouts(numbers, journal, topology_message_timeout_secs=1000, **settings)
    spout.assign(t0=0)
    numbers.waiting.append(1)
    spout.emit()
    (root,) = spout.begun()
    return spout, numbers, root


def test_a_task_that_leaves_emits_no_more_and_waits_for_its_trees() -> None:
    """It still receives their completions, and closes after the last one."""
    journal = Journal()
    spout, numbers, root = with_open_tree(journal)
    assert released(spout.revoke(0)) == []
    numbers.waiting.append(2)
    assert topics([effect for effect in spout.emit() if isinstance(effect, Send)]) == []
    assert numbers.notes == ["activate", "deactivate"]
    assert released(spout.complete(0, root)) == [Close(0), Release(0)]
    assert numbers.notes == ["activate", "deactivate", "ack 1", "close"]
    assert "spout_drained" in journal.events
    assert spout.spouts.tenures == {}


@pytest.mark.parametrize("patience", [5, 90])
def test_a_task_that_leaves_waits_no_longer_than_it_may(patience: float) -> None:
    """The next owner emits its messages again. The limit may be above a minute."""
    spout, numbers, _ = with_open_tree(topology_drain_timeout_secs=patience)
    spout.revoke(0)
    assert released(spout.tick(patience - 1)) == []
    assert "close" not in numbers.notes
    assert released(spout.tick(2)) == [Close(0), Release(0)]
    assert numbers.notes[-1] == "close"


@pytest.mark.parametrize("method", ["deactivate", "close"])
def test_error_in_a_last_call_is_reported_and_the_others_are_closed(method: str) -> None:
    class Untidy(Numbers):
        pass

    def untidy_call(self: Numbers) -> None:
        getattr(Numbers, method)(self)
        raise RuntimeError("no")

    setattr(Untidy, method, untidy_call)
    journal, untidy = Journal(), Untidy()
    spout = Spouts(untidy, journal)
    spout.assign(t0=0, t1=0)
    spout.emit()  # activates them
    assert released(spout.revoke(0, 1)) == [Close(0), Release(0), Close(1), Release(1)]
    assert untidy.notes[-2:] == ["close", "close"]
    assert journal.errors == [("no", f"in {method}")] * 2
