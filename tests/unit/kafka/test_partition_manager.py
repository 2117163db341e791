"""One partition: the stored offset never passes an unfinished message, and no message is lost."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import Message

from kstorm.errors import EmitError, NotYetError
from kstorm.kafka import (
    KafkaHosts,
    PartitionManager,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.kafka.completed_ranges import MOST_RUNS, Run, runs_between
from kstorm.kafka.config import ProcessingGuarantee
from kstorm.kafka.offset_committer import OffsetCommitter
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import Partition, SourceMessage
from kstorm.topology import Fields
from tests.unit.core.test_counted_work import counting_calls
from tests.unit.kafka.one_by_one import emit_next

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import FakeCollector

PARTITION = Partition("sentences", 0)


class Words:
    """A multi-scheme: one tuple per word."""

    output_fields = Fields("word")

    def deserialize(self, value: bytes) -> Any:
        return ([word] for word in value.decode().split())


def message(offset: int, value: bytes | None = b"text", key: bytes | None = None) -> SourceMessage:
    return cast("SourceMessage", Message(*PARTITION, offset, key, value))


def make(
    collector: "FakeCollector",
    *,
    offset: int = 0,
    stored: int | None = None,
    done: Sequence[Run] = (),
    **settings: Any,
) -> PartitionManager:
    """Builds a manager with default settings except the given ones, and retries without delay."""
    settings.setdefault("retry_initial_delay_ms", 0)
    config = SpoutConfig(KafkaHosts(), "sentences", "", "s", **settings)
    return PartitionManager(PARTITION, config, collector, offset=offset, stored=stored, done=done)


def emit_all(
    collector: "FakeCollector",
    manager: PartitionManager,
    *messages: SourceMessage,
    now: float = 0.0,
) -> int:
    """Fills the manager, emits every message, and returns their number."""
    manager.fill(messages)
    count = 0
    while emit_next(manager, collector, now):
        count += 1
    return count


def test_the_offset_stays_at_the_lowest_unfinished_message(collector: "FakeCollector") -> None:
    """Acks out of order move the offset only when the gap is closed."""
    manager = make(collector)
    emit_all(collector, manager, *map(message, range(3)))
    ids = dict(collector.take())
    manager.ack(ids[1])
    manager.ack(ids[2])
    assert manager.last_completed_offset == 0
    manager.ack(ids[0])
    assert manager.last_completed_offset == 3


def test_only_emitted_offsets_count(collector: "FakeCollector") -> None:
    """Offsets of compacted messages and markers do not hold it back (STORM-2505, 2546, 2639)."""
    manager = make(collector, offset=5)
    emit_all(collector, manager, message(7), message(20), message(21))
    ids = dict(collector.take())
    assert manager.last_completed_offset == 7
    manager.ack(ids[7])
    assert manager.last_completed_offset == 20
    manager.ack(ids[20])
    manager.ack(ids[21])
    assert manager.last_completed_offset == 22


def test_commit_returns_a_new_offset_once(collector: "FakeCollector") -> None:
    """A changed offset is written once. The first one is written before any message is done."""
    manager = make(collector, offset=4)
    assert manager.commit() == 4
    assert manager.commit() is None
    emit_all(collector, manager, message(4))
    assert manager.commit() is None
    manager.ack(collector.take()[0][1])
    assert manager.commit() == 5


def test_a_resumed_offset_is_not_written_again(collector: "FakeCollector") -> None:
    """An offset that is already stored is not a change."""
    assert make(collector, offset=4, stored=4).commit() is None


def test_a_message_is_done_when_all_its_tuples_are(collector: "FakeCollector") -> None:
    """A scheme may make several tuples of one message.

    In Storm the first ack finishes it, but not here.
    """
    manager = make(collector, scheme=Words())
    emit_all(collector, manager, message(0, b"to be or"))
    ids = [id for _, id in collector.take()]
    assert len(ids) == 3
    manager.ack(ids[0])
    manager.ack(ids[1])
    assert manager.last_completed_offset == 0
    manager.ack(ids[2])
    assert manager.last_completed_offset == 1


def test_acks_of_an_earlier_attempt_finish_nothing(collector: "FakeCollector") -> None:
    """One of two tuples fails and the message is emitted again.

    Then the other tuple of the first attempt is acked.
    """
    manager = make(collector, scheme=Words())
    emit_all(collector, manager, message(0, b"to be"))
    (_, to), (_, be) = collector.take()
    manager.fail(to, 0.0)
    assert emit_next(manager, collector)
    (_, again_to), (_, again_be) = collector.take()
    manager.ack(be)
    manager.ack(again_to)
    assert manager.last_completed_offset == 0
    manager.ack(again_be)
    assert manager.last_completed_offset == 1


def test_a_message_that_fails_twice_at_once_is_retried_once(collector: "FakeCollector") -> None:
    """All its tuples may fail, which is one failure of the message."""
    manager = make(collector, scheme=Words())
    emit_all(collector, manager, message(0, b"to be"))
    for _, id in collector.take():
        manager.fail(id, 0.0)
    assert manager.failures.waiting == 1
    emit_all(collector, manager)
    assert [offset for offset, _ in collector.take()] == [0, 0]
    assert manager.failures.waiting == 0


def test_retries_go_before_new_messages(collector: "FakeCollector") -> None:
    """A failed message keeps its offset, and is emitted first."""
    manager = make(collector)
    emit_all(collector, manager, message(0, b"zero", b"k"), message(1))
    ids = dict(collector.take())
    manager.fail(ids[0], 0.0)
    manager.fill([message(2)])
    emit_next(manager, collector)
    assert collector.emitted[0][0] == [b"zero"]
    assert [offset for offset, _ in collector.take()] == [0]
    emit_next(manager, collector)
    assert [offset for offset, _ in collector.take()] == [2]


def test_a_retry_waits_for_its_delay_and_lets_others_pass(collector: "FakeCollector") -> None:
    """New messages are emitted meanwhile, and the offset stays."""
    manager = make(collector, retry_initial_delay_ms=1000)
    emit_all(collector, manager, message(0), message(1))
    ids = dict(collector.take())
    manager.fail(ids[0], 10.0)
    manager.ack(ids[1])
    assert emit_all(collector, manager, message(2), now=10.5) == 1
    assert [offset for offset, _ in collector.take()] == [2]
    assert manager.last_completed_offset == 0
    emit_all(collector, manager, now=11.0)
    assert [offset for offset, _ in collector.take()] == [0]


def test_after_the_limit_a_message_is_done_once_its_dead_letter_is_stored(
    collector: "FakeCollector",
) -> None:
    """The letter has bytes, coordinates and attempts.

    The offset moves when the broker has the letter.
    """
    manager = make(collector, retry_limit=1)
    emit_all(collector, manager, message(3, b"bad", b"k"))
    manager.fail(collector.take()[0][1], 0.0)
    emit_all(collector, manager)
    manager.fail(collector.take()[0][1], 0.0)
    (letter,) = collector.letters
    assert (letter.value, letter.key, letter.topic, letter.partition) == (
        b"bad",
        b"k",
        "sentences",
        0,
    )
    assert (letter.offset, letter.attempts) == (3, 2)
    assert "retries are used up" in letter.reason
    assert manager.last_completed_offset == 3
    letter.stored()
    assert manager.last_completed_offset == 4
    assert manager.pending == manager.failures.waiting == 0


def test_undeserializable_message_is_a_dead_letter(collector: "FakeCollector") -> None:
    """The bad message holds the offset until its letter is stored.

    The next message is emitted at once.
    """
    manager = make(collector, scheme=SchemeAsMultiScheme(StringScheme()))
    assert emit_all(collector, manager, message(0, b"\xff"), message(1, b"good")) == 1
    assert [values for values, _, _ in collector.emitted] == [["good"]]
    (letter,) = collector.letters
    assert (letter.value, letter.offset, letter.attempts) == (b"\xff", 0, 1)
    assert "UnicodeDecodeError" in letter.reason
    manager.ack(collector.take()[0][1])
    assert manager.last_completed_offset == 0
    letter.stored()
    assert manager.last_completed_offset == 2


def test_a_generator_that_raises_half_way_emits_nothing(collector: "FakeCollector") -> None:
    """All tuples of a message are made before the first one is emitted."""

    class Halting:
        output_fields = Fields("word")

        def deserialize(self, value: bytes) -> Any:
            yield ["one"]
            raise ValueError("half way")

    manager = make(collector, scheme=Halting())
    emit_all(collector, manager, message(0))
    assert not collector.emitted
    assert "half way" in collector.letters[0].reason


def test_a_message_with_nothing_in_it_is_done_at_once(collector: "FakeCollector") -> None:
    """This covers a tombstone, and a message that gives no tuple."""
    manager = make(collector, scheme=Words())
    assert emit_all(collector, manager, message(0, None), message(1, b"  ")) == 0
    assert manager.last_completed_offset == 2
    assert not collector.emitted
    assert not collector.letters


def test_a_tuple_that_cannot_be_emitted_is_a_dead_letter(collector: "FakeCollector") -> None:
    """A message whose values do not match the declaration must not block the next ones."""
    collector.refuse = EmitError("two values for one field")
    manager = make(collector)
    emit_all(collector, manager, message(0))
    assert "two values for one field" in collector.letters[0].reason
    collector.letters[0].stored()
    assert manager.last_completed_offset == 1


def test_with_tracking_off_the_ack_comes_within_the_emit(collector: "FakeCollector") -> None:
    """The message is known before its emit, so an immediate ack finishes it (STORM-2957)."""
    manager = make(collector)
    collector.at_once = manager.ack
    emit_all(collector, manager, *map(message, range(10)))
    assert manager.pending == 0
    assert manager.last_completed_offset == 10


def test_emitted_message_is_not_emitted_again(collector: "FakeCollector") -> None:
    """Messages below the next offset are dropped, whatever their source (STORM-2666)."""
    manager = make(collector, offset=2)
    emit_all(collector, manager, *map(message, (0, 1, 2, 3, 2, 3, 4)))
    assert [offset for offset, _ in collector.take()] == [2, 3, 4]


def test_at_the_limit_only_retries_are_emitted(collector: "FakeCollector") -> None:
    """With a limit of 3, a 4th message waits, but a failed one is retried (STORM-2343)."""
    manager = make(collector, max_uncommitted_offsets=3)
    emit_all(collector, manager, *map(message, range(5)))
    ids = dict(collector.take())
    assert sorted(ids) == [0, 1, 2]
    assert manager.at_limit
    manager.ack(ids[1])
    manager.ack(ids[2])
    assert not emit_next(manager, collector)
    manager.fail(ids[0], 0.0)
    assert emit_next(manager, collector)
    (again,) = collector.take()
    assert again[0] == 0
    manager.ack(again[1])
    emit_all(collector, manager)
    assert [offset for offset, _ in collector.take()] == [3, 4]


@pytest.mark.parametrize("limit", [1, 3, 7, 10])
def test_partition_continues_although_every_message_fails(
    collector: "FakeCollector", limit: int
) -> None:
    """Every message is retried until it succeeds, also if more fail than the limit (STORM-2549)."""
    manager = make(collector, max_uncommitted_offsets=limit)
    manager.fill(map(message, range(25)))
    attempts: dict[int, int] = {}
    for _ in range(1000):
        emit_next(manager, collector)
        for offset, id in collector.take():
            attempts[offset] = attempts.get(offset, 0) + 1
            if attempts[offset] < 3:
                manager.fail(id, 0.0)
            else:
                manager.ack(id)
    assert attempts == dict.fromkeys(range(25), 3)
    assert manager.last_completed_offset == 25


def test_a_message_too_far_behind_is_not_retried(collector: "FakeCollector") -> None:
    """With `max_offset_behind`, a failed message that is further behind becomes a dead letter."""
    manager = make(collector, max_offset_behind=5)
    emit_all(collector, manager, *map(message, range(10)))
    ids = dict(collector.take())
    manager.fail(ids[4], 0.0)
    manager.fail(ids[5], 0.0)
    assert [letter.offset for letter in collector.letters] == [4]
    assert manager.failures.waiting == 1


def test_tuples_go_to_the_configured_stream(collector: "FakeCollector") -> None:
    """`output_stream_id` names it."""
    manager = make(collector, output_stream_id="lines")
    emit_all(collector, manager, message(0))
    assert collector.emitted[0][2] == "lines"


def test_age_of_the_oldest_message_is_a_metric(collector: "FakeCollector") -> None:
    """The number shows a stuck message. A retry does not reset its age."""
    manager = make(collector)
    assert manager.oldest_pending_age(5.0) == 0.0
    emit_all(collector, manager, message(0), now=5.0)
    manager.fail(collector.take()[0][1], 8.0)
    emit_all(collector, manager, message(1), now=9.0)
    assert manager.oldest_pending_age(10.0) == 5.0


class Asking:
    """A multi-scheme whose answer the test sets."""

    output_fields = Fields("str")
    answer: Exception | None = NotYetError("the registry does not answer")

    def deserialize(self, value: bytes) -> Any:
        """Returns the text, or raises the error that is the answer."""
        if self.answer is not None:
            raise self.answer
        return ([value.decode()],)


def test_a_message_that_cannot_be_read_yet_stays_where_it_is(collector: "FakeCollector") -> None:
    """It does not become a dead letter, and no later message passes it.

    It is emitted as soon as its scheme can read it.
    """
    scheme = Asking()
    manager = make(collector, offset=3, scheme=scheme)
    assert emit_all(collector, manager, message(5), message(6)) == 0
    assert (collector.letters, collector.emitted, len(manager.waiting)) == ([], [], 2)
    assert manager.last_completed_offset <= 5
    assert str(manager.not_yet) == "the registry does not answer"
    scheme.answer = None
    assert emit_all(collector, manager) == 2
    assert [offset for offset, _ in collector.take()] == [5, 6]
    assert manager.not_yet is None
    assert manager.last_completed_offset == 5


def test_a_retry_that_cannot_be_read_yet_costs_no_retry(collector: "FakeCollector") -> None:
    """Repeated looks are not attempts. The message is emitted once more, which is the limit."""
    scheme = Asking()
    scheme.answer = None
    manager = make(collector, scheme=scheme, retry_limit=1)
    emit_all(collector, manager, message(0))
    ((_, id),) = collector.take()
    manager.fail(id, 0.0)
    scheme.answer = NotYetError("not yet")
    for now in range(10):
        assert not manager.retry(float(now))
    assert (collector.letters, manager.failures.waiting, manager.last_completed_offset) == (
        [],
        1,
        0,
    )
    scheme.answer = None
    assert manager.retry(10.0)
    ((offset, again),) = collector.take()
    assert (offset, again.attempt) == (0, 2)
    manager.ack(again)
    assert manager.last_completed_offset == 1


def test_retry_decodes_its_message_once(collector: "FakeCollector") -> None:
    """A second decoding could fail, although the first one succeeded, and would cost a retry."""

    class Fickle(Asking):
        answer = None
        calls = 0

        def deserialize(self, value: bytes) -> Any:
            self.calls += 1
            if self.calls == 3:
                raise NotYetError("not any more")
            return super().deserialize(value)

    manager = make(collector, scheme=Fickle(), retry_limit=1)
    emit_all(collector, manager, message(0))
    ((_, id),) = collector.take()
    manager.fail(id, 0.0)
    assert manager.retry(10.0)
    ((offset, again),) = collector.take()
    assert (offset, again.attempt, manager.failures.waiting) == (0, 2, 0)


def test_a_retry_that_turns_out_to_be_unreadable_is_a_dead_letter(
    collector: "FakeCollector",
) -> None:
    """A scheme may learn later that the message's schema does not exist."""
    scheme = Asking()
    scheme.answer = None
    manager = make(collector, scheme=scheme)
    emit_all(collector, manager, message(0))
    ((_, id),) = collector.take()
    manager.fail(id, 0.0)
    scheme.answer = ValueError("there is no such schema")
    emit_next(manager, collector, 1.0)
    (letter,) = collector.letters
    assert (letter.offset, letter.attempts) == (0, 2)
    letter.stored()
    assert manager.last_completed_offset == 1


def test_calls_a_message_that_is_taken(collector: "FakeCollector") -> None:
    """The number of calls per message with a plain scheme must not grow unnoticed.

    They are most of the cost of a small message.
    """
    manager = make(collector, scheme=SchemeAsMultiScheme(StringScheme()))
    manager.fill([message(offset, b"x" * 60) for offset in range(1000)])
    rows: list[Any] = []
    ids: list[Any] = []
    with counting_calls() as calls:
        assert manager.take(0.0, 1000, 1000, rows, ids) == 1000
        made = calls()
    assert made / 1000 < 12.5


def test_cost_of_a_range_does_not_grow_with_its_messages(collector: "FakeCollector") -> None:
    """A range of ten thousand acked messages is as cheap as one of a single message."""
    made = []
    for count in (1, 10_000):
        manager = make(collector, max_uncommitted_offsets=20_000)
        emit_all(collector, manager, *map(message, range(count)))
        for _, id in collector.take():
            manager.ack(id)
        with counting_calls() as calls:
            offset = manager.commit()
            assert offset == count
            found = manager.outcomes.until(offset)
            assert found is not None
            found.encode()
            manager.outcomes.confirmed(offset)
            made.append(calls())
    assert made[0] == made[1] < 120


def test_next_owner_does_not_emit_messages_acked_above_the_oldest(
    collector: "FakeCollector",
) -> None:
    """A failing message holds the offset. The next owner emits only the unfinished ones after it."""
    manager = make(collector)
    emit_all(collector, manager, *map(message, [*range(6), *range(8, 12)]))
    ids = dict(collector.take())
    for offset in (1, 2, 4, 5, 8, 9, 11):
        manager.ack(ids[offset])
    assert manager.commit() == 0
    done = manager.done_above(0)
    assert done == [(1, 3), (4, 6), (8, 10), (11, 12)]
    heir = make(collector, offset=0, stored=0, done=done)
    emit_all(collector, heir, *map(message, [*range(6), *range(8, 14)]))
    ids = dict(collector.take())
    assert sorted(ids) == [0, 3, 10, 12, 13]
    assert heir.done_above(0) == done
    for offset in (0, 3, 10, 12, 13):
        heir.ack(ids[offset])
    assert heir.last_completed_offset == 14
    finished = heir.outcomes.until(14)
    assert finished is not None
    assert finished.n == {"acked": 12, "absent": 2}


def test_unread_finished_messages_stay_finished(collector: "FakeCollector") -> None:
    """The next owner may itself crash before it has read as far as the first one."""
    heir = make(collector, offset=3, stored=3, done=[(4, 8), (20, 30)])
    assert heir.done_above(3) == [(4, 8), (20, 30)]
    emit_all(collector, heir, *map(message, range(3, 6)))
    assert sorted(dict(collector.take())) == [3]
    assert heir.done_above(3) == [(4, 8), (20, 30)]
    emit_all(collector, heir, *map(message, range(6, 25)))
    assert sorted(dict(collector.take())) == list(range(8, 20))
    assert heir.done_above(3) == [(4, 8), (20, 30)]


def test_dead_letters_and_empty_messages_are_not_done_above(collector: "FakeCollector") -> None:
    """A later reader determines their outcomes again."""
    manager = make(collector, scheme=Words(), retry_limit=0)
    emit_all(collector, manager, message(0), message(1), message(2, b""), message(3), message(4))
    ids = dict(collector.take())
    manager.fail(ids[1], 0.0)
    manager.ack(ids[3])
    manager.ack(ids[4])
    assert manager.done_above(0) == [(3, 5)]


def test_longest_of_many_runs_are_kept() -> None:
    """The stored record stays small."""
    runs = runs_between(0, 10_000, [(at, at + 1) for at in (*range(0, 5000, 2), 9000)])
    assert len(runs) == MOST_RUNS
    assert runs == sorted(runs)
    assert runs[-2:] == [(4999, 9000), (9001, 10_000)]


@pytest.mark.parametrize(
    ("offset", "done"), [(0, [(1, 3), (4, 8)]), (2, [(2, 3), (4, 8)]), (5, [(5, 8)]), (9, [])]
)
def test_a_spout_that_stores_nothing_above_keeps_what_a_former_one_has_left(
    collector: "FakeCollector", offset: int, done: list[Run]
) -> None:
    """Only runs above the offset are kept. Otherwise the node would be unreadable for every spout."""
    saved: list[StoredOffset] = []
    store: Any = SimpleNamespace(save=lambda _, stored: saved.append(stored))
    source: Any = SimpleNamespace(commit=lambda *_: None)
    writer: Any = None
    guarantee = ProcessingGuarantee.AT_MOST_ONCE
    config = SpoutConfig(KafkaHosts(), "sentences", "", "s", processing_guarantee=guarantee)
    topology = SimpleNamespace(finished_topic="t.__finished")
    context: Any = SimpleNamespace(component="lines", task_id=1, topology=topology)
    storing = OffsetCommitter(store, source, writer, config, context, TopologyRef("t-1", "t"))
    manager = make(collector, stored=0, done=[(1, 3), (4, 8)], processing_guarantee=guarantee)
    storing._save(manager, offset)
    assert StoredOffset.from_json(saved[0].to_json(), PARTITION, "node").done == done
