"""The transfer of a transaction's records to librdkafka."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kstorm.core.outgoing import BY_KEY, EpochRecords, OutgoingRecord, SinkRecords
from kstorm.runtime.kafka.epoch_records import produce_each, produce_pairs, produce_unreported
from kstorm.runtime.kafka.refusals import Refusals

FRAME = OutgoingRecord("t.sink", 3, b"frame")
HEADERS = [("part", b"0")]
EPOCH = EpochRecords(
    [
        FRAME,
        SinkRecords("counts", ["a", None], ["1", b"2"], None, 7),
        SinkRecords("counts", ["d"], ["4"], [HEADERS], 8),
        OutgoingRecord("counts", BY_KEY, "5", "e", None, 8),
    ]
)
TAKEN = [
    ("t.sink", b"frame", None, 3, None),
    ("counts", "1", "a", BY_KEY, None),
    ("counts", b"2", None, BY_KEY, None),
    ("counts", "4", "d", BY_KEY, HEADERS),
    ("counts", "5", "e", BY_KEY, None),
]


class Queue:
    """A producer with a queue of one record, which refuses the test's records."""

    def __init__(self, **refused: Exception) -> None:
        self.refused = refused
        self.taken: list[tuple[Any, ...]] = []
        self.reports: list[Any] = []
        self._full = False

    def produce(
        self, topic: str, value: Any, key: Any, partition: int, report: Any, headers: Any = None
    ) -> None:
        if self._full:
            raise BufferError
        if isinstance(value, str) and (error := self.refused.get(f"of_{value}")) is not None:
            raise error
        self._full = True
        self.taken.append((topic, value, key, partition, headers))
        self.reports.append(report)

    def poll(self, seconds: float) -> None:
        self._full = False


def too_large() -> KafkaException:
    return KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))


def test_all_are_handed_over_in_their_order_whenever_there_is_room() -> None:
    """The records are columns and single ones, with and without headers, or a list."""
    for records in (EPOCH, list(EPOCH)):
        queue: Any = Queue()
        refusals = Refusals(records)
        produce_unreported(queue, records, refusals)
        assert (queue.taken, queue.reports, bool(refusals)) == (TAKEN, [None] * 5, False)


def test_a_record_that_is_refused_at_once_is_known_by_its_number() -> None:
    """This holds in columns and outside of them. The records after it are still handed over."""
    for records in (EPOCH, list(EPOCH)):
        queue: Any = Queue(
            of_1=too_large(), of_5=UnicodeEncodeError("utf-8", "x", 0, 1, "surrogates")
        )
        refusals = Refusals(records)
        produce_unreported(queue, records, refusals)
        assert queue.taken == [TAKEN[0], TAKEN[2], TAKEN[3]]
        assert sorted(refusals.culprits(alone=True)) == [1, 4]


def test_each_is_listened_to_once_one_was_refused() -> None:
    queue: Any = Queue()
    produce_each(queue, enumerate(EPOCH), Refusals(EPOCH))
    assert queue.taken == TAKEN
    assert None not in queue.reports


def test_changes_are_handed_over_with_their_report() -> None:
    queue: Any = Queue()
    produce_pairs(queue, "log", [(0, b"k", b"v"), (1, b"l", None)], print)
    assert queue.taken == [("log", b"v", b"k", 0, None), ("log", None, b"l", 1, None)]
    assert queue.reports == [print, print]
