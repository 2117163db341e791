"""The numbers of frames that a process has written."""

from kstorm.core.outgoing import OutgoingRecord
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.producer import UnitProducer


def test_tombstone_of_a_transaction_is_counted() -> None:
    """A spout that has replayed a dead letter deletes it in its transaction."""
    settings = Settings(topology="unused", bootstrap_servers="127.0.0.1:9")
    producer = UnitProducer(settings, lambda error: None)
    frames = [OutgoingRecord("letters", 0, None, b"key"), OutgoingRecord("split", 1, b"frame")]
    producer.count([*frames, OutgoingRecord("counts", 0, "sink", task=7)])
    assert (producer.records, producer.bytes) == (2, 5)
