"""The dead letters of a `KafkaSpout`: the kind, the error, and the message with key and headers."""

from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import Message

from kstorm.core.failure_notes import Note
from kstorm.errors import EmitError
from kstorm.kafka import (
    KafkaHosts,
    PartitionManager,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.kafka.ports import Partition, SourceMessage
from tests.unit.kafka.one_by_one import emit_next

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import FakeCollector, Letter

ZERO = Partition("sentences", 0)


def make(collector: "FakeCollector", value: bytes = b"text", **settings: Any) -> PartitionManager:
    """Builds a manager that has emitted one message, or given it up."""
    config = SpoutConfig(
        KafkaHosts(), "sentences", "", "s", scheme=SchemeAsMultiScheme(StringScheme()), **settings
    )
    manager = PartitionManager(ZERO, config, collector, offset=0)
    message = Message(
        *ZERO, 0, b"key", value, [("trace", b"\xff1"), ("none", None)], None, (1, 1700)
    )
    manager.fill([cast("SourceMessage", message)])
    emit_next(manager, collector)
    return manager


def told(collector: "FakeCollector") -> "Letter":
    (letter,) = collector.letters
    return letter


def fail_for_good(manager: PartitionManager, collector: "FakeCollector") -> None:
    (emitted,) = collector.take()
    manager.fail(emitted[1], 0.0)


def test_letter_has_headers_and_timestamp(collector: "FakeCollector") -> None:
    fail_for_good(make(collector, retry_limit=0), collector)
    assert (told(collector).headers, told(collector).timestamp) == (
        [("trace", "\\xff1"), ("none", None)],
        1700,
    )


@pytest.mark.parametrize("timed_out", [False, True])
@pytest.mark.parametrize("note", [None, Note(4, "KeyError", "no such product", "price.py:41")])
@pytest.mark.parametrize(
    "settings", [{"retry_limit": 0}, {"max_offset_behind": 0}], ids=["no retries", "too far behind"]
)
def test_letter_of_a_failure_has_the_note_of_the_task(
    collector: "FakeCollector", timed_out: bool, note: Note | None, settings: dict[str, Any]
) -> None:
    """The spout's collector has its note while `fail` runs."""
    manager = make(collector, **settings)
    manager.next_offset += 1  # reads another message meanwhile
    collector.why_failed, collector.timed_out = note, timed_out
    fail_for_good(manager, collector)
    assert (told(collector).kind, told(collector).error) == (
        "timed_out" if timed_out else "failed",
        note,
    )


def test_letter_of_an_unreadable_message(collector: "FakeCollector") -> None:
    """The letter has the scheme's error."""
    manager = make(collector, b"\xff")
    error = told(collector).error
    assert error is not None
    assert (told(collector).kind, error.type) == ("undecodable", "UnicodeDecodeError")
    assert error.where.startswith("scheme.py:")
    collector.letters[0].stored()
    assert manager.last_completed_offset == 1


def test_letter_of_a_message_that_cannot_be_emitted(collector: "FakeCollector") -> None:
    collector.refuse = EmitError("two values for one field")
    make(collector)
    error = told(collector).error
    assert error is not None
    assert (told(collector).kind, error.type, error.message) == (
        "refused",
        "EmitError",
        "two values for one field",
    )
