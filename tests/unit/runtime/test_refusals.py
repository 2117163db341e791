"""Errors of a transaction's records: some are permanent, and only an operator can fix others."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from kstorm.core.outgoing import OutgoingRecord
from kstorm.runtime.kafka.refusals import Refusals

TOO_LARGE, INVALID = KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD


def record(
    value: Any = b"v", key: bytes | None = b"k", topic: str = "counts", task: int = 7
) -> OutgoingRecord:
    return OutgoingRecord(topic, -1, value, key, None, task)


def refused(
    records: list[OutgoingRecord], code: int, *numbers: int, partition: int = 0
) -> Refusals:
    """Builds the refusals of these records in one partition."""
    made = Refusals(records, "changelog")
    for number in numbers:
        made.add(number, KafkaError(code), partition)
    return made


def test_record_refused_with_its_batch_is_not_certain() -> None:
    """A bad neighbour may be the cause. A record that was alone is the cause."""
    records = [record(b"x" * 10), record(b"x"), record(b"x")]
    assert refused(records, TOO_LARGE, 0, 1).culprits() == {}
    assert list(refused(records, TOO_LARGE, 0, 1).culprits(alone=True)) == [0, 1, 2]
    assert list(refused(records, TOO_LARGE, 0).culprits()) == [0]
    both = refused(records, TOO_LARGE, 0)
    both.add(1, KafkaError(TOO_LARGE), 1)
    assert sorted(both.culprits()) == [0, 1, 2]


def test_records_not_shorter_than_a_refused_one_are_refused() -> None:
    """This applies to records of a sink in the same topic."""
    long, longer = b"x" * 50, b"x" * 51
    records = [
        record(b"x"),
        record(long),
        record(longer),
        record(longer, topic="other"),
        record(longer, task=0),
    ]
    assert sorted(refused(records, TOO_LARGE, 1).culprits()) == [1, 2]


def test_other_records_without_a_key_are_refused() -> None:
    """This applies if a missing key can be the reason. A record with a key is refused alone."""
    records = [record(key=None), record(), record(key=None), record(key=None, topic="other")]
    assert sorted(refused(records, INVALID, 0).culprits()) == [0, 2]
    assert sorted(refused(records, INVALID, 1).culprits()) == [1]


def test_invalid_topic_name_and_unencodable_record_are_refused_alone() -> None:
    """They never had a partition, so their neighbours are unaffected."""
    records = [record(topic="a b"), record("\ud800"), record()]
    made = refused(records, KafkaError.TOPIC_EXCEPTION, 0, partition=-1)
    made.add_unwritable(1, ValueError("no UTF-8"))
    assert sorted(made.culprits()) == [0, 1]
    assert "ValueError: no UTF-8" in made.culprits()[1]


def test_few_are_tried_alone() -> None:
    """Candidates are one of each length, and one without a key, or all without a key."""
    records = [record(b"x" * (1 + number % 3)) for number in range(30)]
    assert refused(records, TOO_LARGE, *range(30)).suspects() == [0, 1, 2]
    keys = [record(key=None if number % 5 == 4 else b"k") for number in range(10)]
    assert refused(keys, INVALID, *range(10)).suspects() == [4]
    assert refused(keys, INVALID, 0, 1, 2).suspects() == [0, 1, 2]


@pytest.mark.parametrize(
    ("code", "task", "told"),
    [
        (TOO_LARGE, 0, "raise its max.message.bytes"),
        (INVALID, 0, "compare its cleanup.policy"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 7, "allow this user WRITE on it"),
    ],
)
def test_operator_error_ends_the_process(code: int, task: int, told: str) -> None:
    """The record does not become a dead letter, and the error names the topic."""
    made = refused([record(task=task)], code, 0)
    assert made
    assert (made.culprits(), made.suspects()) == ({}, [])
    assert "the topic 'counts' did not accept a record" in made.must_end
    assert told in made.must_end


def test_refused_state_change_ends_the_process() -> None:
    """The error names the changelog."""
    made = Refusals([], "changelog")
    made.add_change(KafkaError(TOO_LARGE))
    assert "the topic 'changelog' did not accept a record" in made.must_end


def test_temporary_refusal_is_retried() -> None:
    """The reason is the first real one, because purged records were only behind others."""
    made = refused([record(), record()], KafkaError._PURGE_QUEUE, 0)
    made.add(1, KafkaError(KafkaError._MSG_TIMED_OUT), -1)
    assert made
    assert (made.must_end, made.culprits()) == ("", {})
    assert "does it exist" in made.reason
    assert not Refusals([record()])
