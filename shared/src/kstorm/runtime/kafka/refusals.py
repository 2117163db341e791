"""Identifies records that Kafka rejects, and decides if the rejection is permanent.

Kafka rejects a sink's record permanently if it is longer than its topic allows, lacks a key in a
compacted topic, or has an invalid topic name. Nothing can fix such a record, so it must not stop
the process. An operator can fix all other causes: rights, a missing topic, a limit of one of
kstorm's own topics.

Kafka rejects a batch as a whole, and the client reports this for each of its records. So a record
is certainly invalid only if it was alone in its batch.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message

from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.record_size import record_bytes
from kstorm.runtime.kafka.producer import Report

TOO_LARGE: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
FOR_GOOD: Final = (*TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.TOPIC_EXCEPTION)
"""Error codes of records for which every retry would fail in the same way."""
_NOT_ALLOWED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_PURGED: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
_ABSENT: Final = (
    KafkaError._MSG_TIMED_OUT,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


class AbortedError(Exception):
    """A transaction was aborted and may be retried."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RecordsRefusedError(Exception):
    """A transaction was rolled back because Kafka permanently rejects some of its records.

    `refused` maps their index in the effect's records to the reason. A second transaction without
    these records may succeed.
    """

    def __init__(self, refused: Mapping[int, str]) -> None:
        super().__init__(f"{len(refused)} records were refused permanently")
        self.refused = refused


class _Refusal(NamedTuple):
    code: int
    words: str
    partition: int
    """-1 if it was rejected before a partition was chosen."""


class Refusals:
    """Rejected records of one attempt to write `records` and the changes of `changelog`."""

    def __init__(self, records: Sequence[OutgoingRecord], changelog: str = "") -> None:
        self._records, self._changelog = records, changelog
        # Records of sinks by index.
        self._for_good: dict[int, _Refusal] = {}
        self._first: tuple[str, KafkaError] | None = None
        self.must_end = ""
        """The reason why the process must end, with the remedy, or ""."""

    def __bool__(self) -> bool:
        return bool(self._for_good or self._first)

    @property
    def reason(self) -> str:
        """The reason for another attempt."""
        if self._first is None:
            return f"Kafka refused {len(self._for_good)} records"
        return explain_refusal(*self._first)

    def listen(self, number: int) -> Report:
        """Return a delivery report callback for a record."""

        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                partition = message.partition()
                self.add(number, error, -1 if partition is None else partition)

        return report

    def add(self, number: int, error: KafkaError, partition: int = -1) -> None:
        """Record a rejection."""
        record = self._records[number]
        if record.task and error.code() in FOR_GOOD:
            self._for_good[number] = _Refusal(error.code(), error.str(), partition)
        else:
            self._add_other(record.topic, error)

    def add_unwritable(self, number: int, error: Exception) -> None:
        """Record that the client cannot encode a sink's record, e.g. text that is not UTF-8."""
        self._for_good[number] = _Refusal(
            KafkaError.TOPIC_EXCEPTION, f"{type(error).__name__}: {error}", -1
        )

    def add_change(self, error: KafkaError) -> None:
        """Record the rejection of a state change."""
        self._add_other(self._changelog, error)

    def _add_other(self, topic: str, error: KafkaError) -> None:
        # The record was purged after the rejection of another one, or the client is still purging.
        if error.code() in _PURGED:
            self._first = self._first or (topic, error)
            return
        if self._first is None or self._first[1].code() in _PURGED:
            self._first = (topic, error)
        if error.code() in (*FOR_GOOD, *_NOT_ALLOWED):
            self.must_end = self.must_end or explain_refusal(topic, error)

    @property
    def refused_bytes(self) -> int:
        """Upper limit of the size of each rejected batch."""
        return sum(record_bytes(self._records[number]) for number in self._for_good)

    def suspects(self) -> list[int]:
        """Return a sample of the rejected records, which contains an invalid one if there is any.

        The sample has one record of each length, or one without a key, or otherwise all records.
        """
        chosen: dict[tuple[object, ...], int] = {}
        for number, one in sorted(self._for_good.items()):
            record = self._records[number]
            kind: object = number
            if one.code in TOO_LARGE:
                kind = record_bytes(record)
            elif record.key is None:
                kind = None
            chosen.setdefault((record.topic, one.code, kind), number)
        without_key = {(topic, code) for topic, code, kind in chosen if kind is None}
        return [
            number
            for (topic, code, kind), number in chosen.items()
            if kind is None or (topic, code) not in without_key
        ]

    def culprits(self, *, alone: bool = False) -> dict[int, str]:
        """Return the records that are certainly invalid, with the reason.

        A record is certain if it was the only one rejected in its partition, or if each was `alone`
        in its batch. Records with the same defect are included.
        """
        at = Counter(
            (self._records[number].topic, one.partition) for number, one in self._for_good.items()
        )
        sure: dict[int, str] = {}
        for number, one in sorted(self._for_good.items()):
            topic = self._records[number].topic
            if alone or one.partition < 0 or at[topic, one.partition] == 1:
                for other in self._like(number, one) if one.partition >= 0 else [number]:
                    sure.setdefault(
                        other, f"Kafka refused a record for the topic {topic!r}: {one.words}"
                    )
        return sure

    def _like(self, number: int, refusal: _Refusal) -> list[int]:
        """Return a record and the others of its topic that have the same defect: they are at least
        as long, or lack a key too.

        Without extensions, brokers return `INVALID_RECORD` only for a missing key that is required.
        """
        bad, records = self._records[number], self._records
        mates = [
            other
            for other, record in enumerate(records)
            if record.task and record.topic == bad.topic
        ]
        if refusal.code in TOO_LARGE:
            size = record_bytes(bad)
            return [other for other in mates if record_bytes(records[other]) >= size]
        if refusal.code == KafkaError.INVALID_RECORD and bad.key is None:
            return [other for other in mates if records[other].key is None]
        return [number]


def explain_refusal(topic: str, error: KafkaError) -> str:
    """Describe a rejection that an operator can fix, with the remedy."""
    code = error.code()
    if code in _NOT_ALLOWED:
        remedy = "allow this user WRITE on it"
    elif code in TOO_LARGE:
        remedy = "raise its max.message.bytes; docs/reference/topics.md lists the settings that kstorm uses"
    elif code in FOR_GOOD:
        remedy = (
            "compare its cleanup.policy with docs/reference/topics.md, which lists the settings that kstorm "
            "uses"
        )
    elif code in _ABSENT:
        remedy = (
            "does it exist, does each partition have a leader, may this user WRITE on it? kstorm "
            "creates only its own topics"
        )
    else:
        remedy = "look into the brokers' logs"
    return f"the topic {topic!r} did not accept a record: {error.str()}; {remedy}"


def blames_a_record(error: KafkaError) -> bool:
    """Return True if an unnamed record made a transaction fail, so that reports of all records are
    needed."""
    return error.code() in (*FOR_GOOD, KafkaError._INCONSISTENT)


def explain_missing_right(error: KafkaError) -> str:
    """Describe the right that a failed transaction lacked, from an error text that names the topic,
    or return ""."""
    return (
        f"{error.str()}; allow this user WRITE on that topic"
        if error.code() in _NOT_ALLOWED
        else ""
    )
