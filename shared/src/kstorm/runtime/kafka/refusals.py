"""Records that Kafka refuses: which ones, whether for good, and what can be done about it.

A record of a sink may be refused for good: it is longer than its topic allows, has no key in a compacted topic, or its topic's name
is none. Nobody can mend the record, so it must not stop the process. Whatever else is refused an operator can mend: rights, a topic
that is not there, a limit of one of kstorm's own topics.

Kafka refuses a batch as a whole, and a client says so of each of its records. So a record is known to be the bad one only if it was
alone in its batch.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message

from kstorm.core.outgoing import Outgoing
from kstorm.core.sizes import record_bytes
from kstorm.runtime.kafka.producer import Report

TOO_LARGE: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
FOR_GOOD: Final = (*TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.TOPIC_EXCEPTION)
"""Codes that say of a record that no other trial will end otherwise."""
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


class RecordsRefusedError(Exception):
    """A transaction was taken back since Kafka refuses some of its records for good: by their number among the effect's
    records, why. Written again without them, it may pass."""

    def __init__(self, refused: Mapping[int, str]) -> None:
        super().__init__(f"{len(refused)} records were refused for good")
        self.refused = refused


class _Refusal(NamedTuple):
    code: int
    words: str
    partition: int
    """-1 if it was refused before it had one."""


class Refusals:
    """What was refused of one attempt to write `records`, those of `changelog` aside."""

    def __init__(self, records: Sequence[Outgoing], changelog: str = "") -> None:
        self._records, self._changelog = records, changelog
        self._for_good: dict[int, _Refusal] = {}  # of sinks, by number
        self._first: tuple[str, KafkaError] | None = None
        self.must_end = ""
        """Why the process has to end, and what to do; empty if it need not."""

    def __bool__(self) -> bool:
        return bool(self._for_good or self._first)

    @property
    def reason(self) -> str:
        """Why there must be another attempt."""
        if self._first is None:
            return f"Kafka refused {len(self._for_good)} records"
        return explained(*self._first)

    def listen(self, number: int) -> Report:
        """A delivery report for a record."""

        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                partition = message.partition()
                self.add(number, error, -1 if partition is None else partition)

        return report

    def add(self, number: int, error: KafkaError, partition: int = -1) -> None:
        """Takes note of a refusal."""
        record = self._records[number]
        if record.task and error.code() in FOR_GOOD:
            self._for_good[number] = _Refusal(error.code(), error.str(), partition)
        else:
            self._add_other(record.topic, error)

    def add_unwritable(self, number: int, error: Exception) -> None:
        """A record of a sink that the client does not take: its text has no UTF-8, say."""
        self._for_good[number] = _Refusal(
            KafkaError.TOPIC_EXCEPTION, f"{type(error).__name__}: {error}", -1
        )

    def add_change(self, error: KafkaError) -> None:
        """Takes note of the refusal of a change of state."""
        self._add_other(self._changelog, error)

    def _add_other(self, topic: str, error: KafkaError) -> None:
        if (
            error.code() in _PURGED
        ):  # it was not tried, since another was refused; or the client is not done with that
            self._first = self._first or (topic, error)
            return
        if self._first is None or self._first[1].code() in _PURGED:
            self._first = (topic, error)
        if error.code() in (*FOR_GOOD, *_NOT_ALLOWED):
            self.must_end = self.must_end or explained(topic, error)

    @property
    def refused_bytes(self) -> int:
        """No batch that was refused was longer."""
        return sum(record_bytes(self._records[number]) for number in self._for_good)

    def suspects(self) -> list[int]:
        """The numbers of some of those refused, such that one is bad if any of all is: a record of each length, or one without a
        key, or else all."""
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
        """Those that were refused for what they are, by number, with the reason: of each partition the one that was refused
        there, if there was only one, or all if each was `alone` in its batch; and those that must fare like them."""
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
        """A record and its like: of the same topic those that are not shorter, or that have no key either. Brokers know no
        other `INVALID_RECORD` than one without a key where keys are needed, unless they have extensions."""
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


def explained(topic: str, error: KafkaError) -> str:
    """What a refusal that somebody can mend means, and what to do."""
    code = error.code()
    if code in _NOT_ALLOWED:
        remedy = "allow this user WRITE on it"
    elif code in TOO_LARGE:
        remedy = "raise its max.message.bytes; docs/topics.md has what kstorm sets"
    elif code in FOR_GOOD:
        remedy = "docs/topics.md has how kstorm sets its topics: compare its cleanup.policy"
    elif code in _ABSENT:
        remedy = "does it exist, has each partition a leader, may this user WRITE on it? kstorm makes its own topics only"
    else:
        remedy = "look into the brokers' logs"
    return f"the topic {topic!r} did not take a record: {error.str()}; {remedy}"


def is_of_a_record(error: KafkaError) -> bool:
    """Whether a transaction failed for a record that it does not name: then each has to be listened to."""
    return error.code() in (*FOR_GOOD, KafkaError._INCONSISTENT)


def not_allowed(error: KafkaError) -> str:
    """What to tell of a transaction that failed for a topic's rights, which its words name; empty if it did not."""
    return (
        f"{error.str()}; allow this user WRITE on that topic"
        if error.code() in _NOT_ALLOWED
        else ""
    )
