"""Reads the ranges that spouts and operators have finished."""

from confluent_kafka import Consumer, TopicPartition

from kstorm.kafka.finished_ranges import FinishedRange, decode_range


def finished_ranges(bootstrap: str, topic: str) -> list[FinishedRange]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    try:
        end = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1]
        reader.assign([TopicPartition(topic, 0, 0)])
        found = reader.consume(end, timeout=20) if end else []
    finally:
        reader.close()
    assert len(found) == end
    return [decode_range(message.value() or b"") for message in found]


def offsets_in(ranges: list[FinishedRange]) -> set[int]:
    return {offset for found in ranges for offset in range(found.start, found.end)}
