"""For any message and any emitted value, the message is emitted, failed or a dead letter."""

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, cast

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from kstorm.errors import BrokerError
from kstorm.kafka import (
    KafkaHosts,
    KeyValueSchemeAsMultiScheme,
    MessageMetadataSchemeAsMultiScheme,
    RawMultiScheme,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringKeyValueScheme,
    StringScheme,
)
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.ports import Partition, SourceMessage
from kstorm.kafka.serializer import AnySerializer, column, to_bytes
from kstorm.runtime.kafka.consumer_calls import ConsumerCallQueue
from kstorm.runtime.kafka.sink import KafkaWriter
from tests.unit.fuzz.hostile import anything, bounded, values
from tests.unit.kafka.conftest import FakeCollector
from tests.unit.kafka.one_by_one import emit_next

SCHEMES = [
    RawMultiScheme(),
    SchemeAsMultiScheme(StringScheme()),
    KeyValueSchemeAsMultiScheme(StringKeyValueScheme()),
    MessageMetadataSchemeAsMultiScheme(StringScheme()),
]
payloads = st.none() | anything(st.text().map(str.encode))


@given(st.sampled_from(SCHEMES), st.lists(st.tuples(payloads, payloads), min_size=1, max_size=4))
def test_every_message_is_emitted_or_a_dead_letter_or_nothing(
    scheme: Any, records: list[tuple[Any, Any]]
) -> None:
    """Each message is finished in the end, so that the offset moves past it."""
    collector = FakeCollector()
    config = SpoutConfig(KafkaHosts(), "t", "/r", "i", scheme=scheme)
    manager = PartitionManager(Partition("t", 0), config, cast("Any", collector), offset=0)
    messages = [Message("t", 0, offset, key, value) for offset, (key, value) in enumerate(records)]
    manager.fill(cast("list[SourceMessage]", messages))
    size = b"".join((key or b"") + (value or b"") for key, value in records)
    bounded(size, lambda _: [emit_next(manager, collector) for _ in records])
    for letter in collector.letters:
        assert letter.value == records[letter.offset][1]
        letter.stored()
    for _, id, _ in collector.emitted:
        manager.ack(id)
    assert manager.last_completed_offset == len(records)


nested: Any = []
for _ in range(5000):
    nested = [nested]


@given(values | st.sampled_from([nested, "\udcff", object(), {1j}, 10**400, {(1, 2): 3}]))
def test_a_value_is_written_or_refused(value: Any) -> None:
    """A mapper's value becomes bytes, or raises an exception that fails its tuple."""
    with suppress(TypeError, ValueError, RecursionError):
        assert isinstance(to_bytes(value), bytes | None)
    with suppress(TypeError, ValueError, RecursionError):
        assert all(
            isinstance(each, str | bytes | None)
            for each in column(AnySerializer(), "t", [value, "text"])
        )


@given(st.lists(st.sampled_from(["well", "raises", "cancelled", "exits"]), max_size=6))
def test_each_order_is_answered(kinds: list[str]) -> None:
    """Later calls run, whatever the earlier ones do and whether or not their callers still wait."""
    orders, futures = ConsumerCallQueue(), list[tuple[str, "Future[int]"]]()
    for kind in kinds:
        future = orders.give(
            {"raises": lambda: 1 // 0, "exits": lambda: exit()}.get(kind, lambda: 1)
        )
        if kind == "cancelled":
            future.cancel()
        futures.append((kind, future))
    orders.serve()
    for kind, future in futures:
        assert future.done()
        if kind == "well":
            assert future.result() == 1
        elif kind != "cancelled":
            assert isinstance(future.exception(), ZeroDivisionError | SystemExit)


@pytest.mark.parametrize("topic", ["a\0b", "\udcff", 5])
async def test_a_record_that_cannot_be_given_to_kafka_is_not_acked(topic: Any) -> None:
    """A topic from a tuple's value is refused at once, and its report is not a success."""
    told: list[object] = []
    writer = KafkaWriter({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    with suppress(BrokerError):
        writer.write(topic, b"key", b"value", lambda error, record: told.append(error))
        pytest.fail("it was taken")
    assert told == []


async def test_text_without_utf8_fails_its_batch() -> None:
    """The other records are reported first."""
    told: list[Sequence[object]] = []
    writer = KafkaWriter({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    writer.write_batch("topic", [None], ["\udcff"], told.append)
    writer._serve()  # errors are reported after the next poll
    ((error,),) = told
    assert "surrogates not allowed" in str(error)
