"""For any events in any order, the stored offset never passes an unfinished message.

No message is forgotten.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from confluent_kafka import Message
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from kstorm.kafka import KafkaHosts, KafkaMessageId, PartitionManager, SpoutConfig
from kstorm.kafka.ports import Partition, SourceMessage
from kstorm.topology import Fields, Note, Placed
from tests.unit.kafka.one_by_one import emit_next

PARTITION = Partition("t", 0)


class Letters:
    """Gives one tuple per letter. `!` cannot be read, a space is empty, and `?` cannot be emitted."""

    output_fields = Fields("letter")

    def deserialize(self, value: bytes) -> list[list[str]]:
        text = value.decode().strip()
        if "!" in text:
            raise ValueError(text)
        return [[letter] for letter in text]


class Ledger:
    """A collector with its own record of the acked tuples per attempt."""

    capacity = 10**9
    why_failed: Note | None = None
    timed_out = False

    def __init__(self) -> None:
        self.emitted: list[KafkaMessageId] = []
        self.open_letters: list[tuple[int, Callable[[], None]]] = []

    def emit(
        self,
        values: Sequence[Any],
        message_id: Any = None,
        stream: str = "default",
        task: int | None = None,
    ) -> Sequence[int]:
        self.emit_batch([list(values)], [message_id], stream)
        return (1,)

    def emit_batch(self, columns: Any, message_ids: Any = None, stream: str = "default") -> Placed:
        if "?" in columns[0]:
            raise LookupError("a grouping that cannot choose")
        self.emitted.extend(message_ids)
        return []

    def dead_letter(self, reason: str, **coordinates: Any) -> None:
        self.open_letters.append((coordinates["offset"], coordinates["on_stored"]))

    def report_error(self, error: BaseException) -> None:
        raise AssertionError from error


class OnePartition(RuleBasedStateMachine):
    """A partition with gaps and late letters.

    Trees complete, fail, and complete after a failure.
    """

    trees = Bundle("trees")
    letters = Bundle("letters")

    def __init__(self) -> None:
        super().__init__()
        self.collector = Ledger()
        config = SpoutConfig(
            KafkaHosts(),
            "t",
            "",
            "s",
            scheme=Letters(),
            retry_limit=2,
            retry_initial_delay_ms=0,
            max_uncommitted_offsets=7,
        )
        self.manager = PartitionManager(PARTITION, config, self.collector, offset=0)
        self.end = 0
        self.read: dict[int, bytes] = {}
        # The model decides by the tuples alone which messages are finished.
        self.finished: set[int] = set()
        self.acked: dict[tuple[int, int], int] = {}
        self.failed: dict[int, int] = {}
        self.emissions: dict[int, int] = {}
        self.committed = 0
        self.in_flight: list[KafkaMessageId] = []
        self.letters_given: list[tuple[int, Callable[[], None]]] = []
        self.buried: set[int] = set()

    @rule(
        gap=st.integers(0, 3),
        value=st.sampled_from([b"a", b"ab", b"ab", b"abc", b" ", b"!", b"?", b"a?b"]),
    )
    def produce(self, gap: int, value: bytes) -> None:
        offset = self.end + gap
        self.end = offset + 1
        self.read[offset] = value
        self.manager.fill([cast("SourceMessage", Message("t", 0, offset, None, value))])

    @rule(offset=st.integers(0, 30))
    def read_again(self, offset: int) -> None:
        """Moves the reader back over emitted messages."""
        if offset < self.manager.next_offset and offset in self.read:
            self.manager.waiting.appendleft(
                cast("SourceMessage", Message("t", 0, offset, None, self.read[offset]))
            )

    @rule(target=trees, calls=st.integers(1, 4))
    def emit(self, calls: int) -> Any:
        return multiple(*(id for _ in range(calls) for id in self.emit_one()))

    def emit_one(self) -> list[KafkaMessageId]:
        before = self.manager.next_offset
        emit_next(self.manager, self.collector)
        for offset in range(before, self.manager.next_offset):
            if self.read.get(offset, b"").isspace():
                self.finished.add(offset)
        emitted, self.collector.emitted = self.collector.emitted, []
        assert len({id.offset for id in emitted}) <= 1, "one message a call"
        for id in emitted[:1]:
            assert id.attempt == self.emissions.get(id.offset, 0) + 1
            self.emissions[id.offset] = id.attempt
            assert id.offset not in self.finished
        self.in_flight += emitted
        return emitted

    @rule(id=consumes(trees))
    def complete(self, id: KafkaMessageId) -> None:
        self.in_flight.remove(id)
        self.manager.ack(id)
        if self.failed.get(id.offset, 0) < id.attempt:
            self.acked[id.offset, id.attempt] = self.acked.get((id.offset, id.attempt), 0) + 1
            if self.acked[id.offset, id.attempt] == len(self.read[id.offset]):
                self.finished.add(id.offset)

    @rule(id=consumes(trees))
    def fail(self, id: KafkaMessageId) -> None:
        self.in_flight.remove(id)
        self.manager.fail(id, 0.0)
        self.failed[id.offset] = max(self.failed.get(id.offset, 0), id.attempt)

    @rule(target=letters)
    def letters_leave(self) -> Any:
        letters, self.collector.open_letters = self.collector.open_letters, []
        self.letters_given += letters
        return multiple(*letters)

    @rule(letter=consumes(letters))
    def letter_is_stored(self, letter: tuple[int, Callable[[], None]]) -> None:
        self.letters_given.remove(letter)
        offset, stored = letter
        assert offset not in self.finished, "a finished message is no dead letter"
        self.finished.add(offset)
        self.buried.add(offset)
        stored()

    @rule()
    def commit(self) -> None:
        offset = self.manager.commit()
        if offset is not None:
            assert offset >= self.committed, "the offset never moves back"
            self.check_outcomes(self.committed, offset)
            self.committed = offset

    def check_outcomes(self, start: int, end: int) -> None:
        """The reported outcomes of messages below the offset match the model."""
        found = self.manager.outcomes.until(end)
        there = [offset for offset in self.read if start <= offset < end]
        empty = [offset for offset in there if self.read[offset].isspace()]
        dead = [offset for offset in there if offset in self.buried]
        expected = {
            "acked": len(there) - len(empty) - len(dead),
            "absent": end - start - len(there),
            "empty": len(empty),
            "dead": len(dead),
        }
        assert (found.n if found else {}) == {
            outcome: count for outcome, count in expected.items() if count
        }
        again = {
            offset
            for first, behind, _ in (found.retried if found else ())
            for offset in range(first, behind)
        }
        assert again == {offset for offset in there if self.emissions.get(offset, 0) > 1}
        self.manager.outcomes.confirmed(end)

    @invariant()
    def nothing_unfinished_is_below_the_offset(self) -> None:
        completed = self.manager.last_completed_offset
        assert all(offset in self.finished for offset in self.read if offset < completed)

    @invariant()
    def the_offset_is_as_far_as_it_may_be(self) -> None:
        emitted = [offset for offset in self.read if offset < self.manager.next_offset]
        unfinished = [offset for offset in emitted if offset not in self.finished]
        assert self.manager.last_completed_offset == min(
            unfinished, default=self.manager.next_offset
        )

    @invariant()
    def the_limit_holds(self) -> None:
        # The newest message may start below the limit and after a gap.
        newest = max(
            (offset for offset in self.read if offset < self.manager.next_offset), default=-1
        )
        before = max((offset for offset in self.read if offset < newest), default=-1)
        assert before + 1 - self.manager.last_completed_offset < 7

    def teardown(self) -> None:
        """Without further failures, every message is finished, so none was forgotten."""
        letters = [*self.letters_given, *self.collector.open_letters]
        for _ in range(20 * (len(self.read) + 1)):
            for id in self.in_flight:
                self.manager.ack(id)
            for _, stored in letters:
                stored()
            emit_next(self.manager, self.collector)
            self.in_flight, self.collector.emitted = self.collector.emitted, []
            letters, self.collector.open_letters = self.collector.open_letters, []
        assert self.manager.last_completed_offset == self.end
        assert self.manager.pending == self.manager.failures.waiting == 0


TestOnePartition = OnePartition.TestCase
