"""Input that is small before decoding and large after it: it is refused, or fits the spare memory."""

import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest
from confluent_kafka import Message
from hypothesis import given

from kstorm.core.dead_letters import DeadLetter, decode_letter, encode_letter
from kstorm.core.engine import InputRecord
from kstorm.core.engine.effects import Send
from kstorm.core.frame_limits import MOST_VALUES, most_frame_bytes, within
from kstorm.core.outbox import Outbox
from kstorm.core.wire import VERSION, AckFrame, CompletionFrame, TupleFrame, decode, encode
from kstorm.errors import FrameError
from kstorm.kafka import (
    JsonScheme,
    KafkaHosts,
    KeyValueSchemeAsMultiScheme,
    MessageMetadataSchemeAsMultiScheme,
    MultiScheme,
    RawMultiScheme,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringKeyValueScheme,
    StringMultiSchemeWithTopic,
    StringScheme,
)
from kstorm.kafka.message_limits import check_json
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.ports import Partition, SourceMessage
from kstorm.registry import JsonSchemaScheme, SchemaRegistry
from kstorm.testing import FeederSpout
from kstorm.topology import Bolt, Config, Topology, TopologyBuilder, Tuple
from tests.unit.core.engines import Driven, acker_engine, bolt_engine, spout_engine
from tests.unit.fuzz.hostile import values
from tests.unit.kafka.conftest import FakeCollector

TO_SPARE = 100_000_000
"""The limit in bytes for decoding any input."""
HEAD = msgspec.msgpack.encode([VERSION, "spout", 1, "default", 1, b"", b"", {}, []])[:-1]
MORE = msgspec.msgpack.encode([VERSION, "spout", 1, "default", 1, b"", b""])[:-1]


def array(count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big")


def mapping(count: int) -> bytes:
    return b"\xdf" + count.to_bytes(4, "big")


def keys(count: int) -> bytes:
    """Builds members of a map, each with an empty map as its value."""
    return b"".join(b"\xce" + key.to_bytes(4, "big") + b"\x80" for key in range(count))


def bombs(size: int) -> dict[str, bytes]:
    """Builds bombs of about `size` bytes of MessagePack."""
    head = b"\x99" + HEAD[1:]
    return {
        "empty lists": head + array(1) + array(size) + b"\x90" * size,
        "empty maps": head + array(1) + array(size) + b"\x80" * size,
        "columns": head + array(size) + b"\x90" * size,
        "short texts": head + array(1) + array(size // 2) + b"\xa1x" * (size // 2),
        "numbers": head + array(1) + array(size // 9) + (b"\xcb" + b"\x3f" * 8) * (size // 9),
        "a map of numbers": head + array(1) + array(1) + mapping(size // 6) + keys(size // 6),
        "anchors": b"\x99" + MORE[1:] + mapping(size // 6) + keys(size // 6) + b"\x90",
        "nesting": head + array(1) + array(1) + b"\x91" * size,
        "a list beside a frame": array(size) + b"\x90" * size,
        "more than there is": head + array(1) + array(2**32 - 1),
        "only the byte 0x90": b"\x90" * size,
        "a frame, and what is wrong at its end": head
        + array(1)
        + array(MOST_VALUES - 1)
        + b"\x90" * (MOST_VALUES - 2)
        + b"\xc1",
    }


BOMBS = [
    *((1_000_000, name) for name in bombs(9)),
    (3_500_000, "only the byte 0x90"),
    (3_500_000, "empty lists"),
]


def peak(call: Callable[[], Any]) -> int:
    """Returns the peak memory of a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class Sink(Bolt):
    def execute(self, tuple: Tuple) -> None:
        """Drops the tuple."""


def topology(**settings: Any) -> Topology:
    builder = TopologyBuilder("t", Config(topology_acker_tasks=1, **settings))
    builder.set_spout("spout", FeederSpout("word"))
    builder.set_bolt("bolt", Sink()).shuffle_grouping("spout")
    return builder.build()


@pytest.mark.parametrize(("size", "name"), BOMBS)
def test_memory_of_a_frame_is_limited(size: int, name: str) -> None:
    data = bombs(size)[name]
    kinds: tuple[type[Any], ...] = (TupleFrame, AckFrame, CompletionFrame)
    for kind in kinds:

        def read(kind: type[Any] = kind) -> None:
            with suppress(FrameError):
                decode(kind, data)

        assert peak(read) < TO_SPARE


@pytest.mark.parametrize("kind", ["bolt", "spout", "acker"])
def test_too_long_record_is_not_decoded(kind: str) -> None:
    """It becomes a dead letter with its place and its start.

    A record at the frame limit is decoded.
    """
    engines: dict[str, Callable[[Topology], Any]] = {
        "bolt": lambda made: bolt_engine(made, "bolt"),
        "spout": lambda made: spout_engine(made, "spout"),
        "acker": acker_engine,
    }
    most = most_frame_bytes(768 * 1024)
    engine = Driven(engines[kind](topology()))
    engine.assign(t0=0)
    engine.take(Send)
    bomb = b"\x90" * (60 * 1024 * 1024)
    assert peak(lambda: engine.poll(0, InputRecord(0, bomb))) < 10_000_000
    engine.poll(0, InputRecord(1, b"\xc1" * most), InputRecord(2, b"\xc1" * (most + 1)))
    letters = [decode_letter(record.value) for send in engine.take(Send) for record in send.records]
    assert [(letter.partition, letter.offset) for letter in letters] == [(0, 0), (0, 1), (0, 2)]
    assert [
        f"reads at most {most:,}; to read longer frames, raise topology_frame_max_bytes"
        in letter.reason
        for letter in letters
    ] == [True, False, True]


def test_a_topology_of_larger_frames_reads_larger_ones() -> None:
    """The limit follows its own setting, with slack for a rollout of a changed setting."""
    engine = bolt_engine(topology(topology_frame_max_bytes=8_000_000), "bolt")
    assert engine._longest_frame == 32_000_000
    assert (
        bolt_engine(topology(topology_frame_max_bytes=1000), "bolt")._longest_frame >= 1_000_000
    ), "acks may need it"


def test_sent_frames_are_within_the_read_limits() -> None:
    """A frame with too many values is split, and a single tuple with too many fails."""
    made = topology(topology_frame_max_bytes=8_000_000)
    outbox = Outbox(made)
    lane = outbox.lane("spout", 1, "default", "t.bolt", 0, 2)
    for count in (MOST_VALUES // 2, MOST_VALUES // 2, MOST_VALUES + 1, 3):
        lane.rows.append([[0] * count])
        lane.roots.append(5)
        lane.edges.append(7)
    sent = outbox.drain_tuples()
    frames = [decode(TupleFrame, record.value) for record in sent]
    assert sum(frame.count for frame in frames) == 3
    (refused,) = outbox.too_large
    assert "more than 400,000 values" in str(refused.error())


@given(values)
def test_values_are_counted_as_they_are(value: Any) -> None:
    """The count is exact."""
    data = msgspec.msgpack.encode(value)
    count = _count(value)
    data += b"\xc0" * (
        count + 2
    )  # the bytes after the values do not count, but make the data long enough for the check
    assert within(data, count)
    assert count == 1 or not within(data, count - 1)


@given(values.filter(lambda value: not _holds_bytes(value)))
def test_json_of_so_many_values_is_read(value: Any) -> None:
    """The texts may have any characters."""
    text = msgspec.json.encode([value, ',[{:"\\' * 5])
    check_json(text, 2 * _count(value) + 4)


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _holds_bytes(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_bytes, value.values()))
    return any(map(_holds_bytes, value)) if isinstance(value, list) else isinstance(value, bytes)


# Messages of a source topic.

JSON = SchemeAsMultiScheme(JsonScheme("a"))
SCHEMES: list[MultiScheme] = [
    RawMultiScheme(),
    SchemeAsMultiScheme(StringScheme()),
    KeyValueSchemeAsMultiScheme(StringKeyValueScheme()),
    MessageMetadataSchemeAsMultiScheme(StringScheme()),
    StringMultiSchemeWithTopic(),
    JSON,
    SchemeAsMultiScheme(JsonSchemaScheme(SchemaRegistry("http://nowhere:1"), "a")),
]


def taken(
    scheme: MultiScheme, value: bytes, key: bytes | None = None, **settings: Any
) -> tuple[FakeCollector, int, list[Any]]:
    """Returns a collector with the dead letter, the memory, and the tuples of one message."""
    collector = FakeCollector()
    rows: list[Any] = []
    manager = PartitionManager(
        Partition("t", 0),
        SpoutConfig(KafkaHosts(), "t", "/r", "i", scheme=scheme, **settings),
        cast("Any", collector),
        offset=0,
    )
    manager.fill([cast("SourceMessage", Message("t", 0, 0, key, value))])
    return collector, peak(lambda: manager.take(0.0, 9, 9, rows, [])), rows


@pytest.mark.parametrize(
    "scheme", SCHEMES, ids=lambda scheme: type(getattr(scheme, "scheme", scheme)).__name__
)
@pytest.mark.parametrize("key", [None, b"k"])
def test_too_long_message_is_not_passed_to_the_scheme(
    scheme: MultiScheme, key: bytes | None
) -> None:
    """A batch of 2 kB can have a message of 60 MB."""
    value = b"[" * 60_000_000
    collector, memory, rows = taken(scheme, value, key)
    (letter,) = collector.letters
    assert (letter.topic, letter.partition, letter.offset, rows) == ("t", 0, 0, [])
    assert "max_message_bytes is 16,777,216" in letter.reason
    assert memory < 1_000_000


def test_message_limit_is_a_setting_of_the_spout() -> None:
    scheme = SchemeAsMultiScheme(StringScheme())
    assert taken(scheme, b"x" * 100, max_message_bytes=100)[2] == [("x" * 100,)]
    assert taken(scheme, b"x" * 101, max_message_bytes=100)[2] == []
    keyed = KeyValueSchemeAsMultiScheme(StringKeyValueScheme())
    assert taken(keyed, b"x" * 60, b"k" * 40, max_message_bytes=100)[2] == [("k" * 40, "x" * 60)]
    assert taken(keyed, b"x" * 60, b"k" * 41, max_message_bytes=100)[2] == []


@pytest.mark.parametrize(
    "inner",
    [
        b"[]," * 4_000_000 + b"1",
        b"{}," * 4_000_000 + b"1",
        b"1," * 8_000_000 + b"1",
        b"[" * 16_000_000,
    ],
    ids=["empty lists", "empty objects", "numbers", "nesting"],
)
@pytest.mark.parametrize("scheme", SCHEMES[-2:], ids=["json", "by a registry"])
def test_json_of_too_many_values_is_not_decoded(inner: bytes, scheme: MultiScheme) -> None:
    """Its memory would be 25 times its bytes."""
    collector, memory, _ = taken(scheme, b'{"a": [' + inner + b"]}")
    (letter,) = collector.letters
    assert letter.offset == 0
    assert "more than 400,000 values" in letter.reason
    assert memory < TO_SPARE


def test_a_long_text_is_not_many_values() -> None:
    text = b'{"a": "' + b'[1, {\\"b\\": 2}], ' * 500_000 + b'"}'
    collector, memory, _ = taken(JSON, text)
    assert collector.letters == []
    assert memory < TO_SPARE
    for odd in (
        b'{"a": "' + b'\\",' * 5_000_000,
        b'"' + b"," * 16_000_000,
        b'",' * 8_000_000,
        b"\\" * 15_000_000 + b"," * 500_000,
    ):
        collector, memory, _ = taken(JSON, odd)
        assert len(collector.letters) == 1
        assert memory < TO_SPARE
    more = SchemeAsMultiScheme(JsonScheme("a", most_values=10))
    assert taken(more, b'{"a": [1, 2, 3, 4, 5, 6, 7]}')[0].letters == []
    assert taken(more, b'{"a": [1, 2, 3, 4, 5, 6, 7, 8, 9]}')[0].letters != []


def test_dead_letter_of_a_bomb_is_small() -> None:
    """The letter keeps the start of the value, and the rest is not copied."""
    letter = DeadLetter(
        topology="t", component="c", task=1, reason="too long", value=b"x" * 60_000_000
    )
    made: list[bytes] = []
    assert peak(lambda: made.append(encode_letter(letter))) < 5_000_000
    assert (
        decode_letter(made[0]).reason
        == "too long (the first 350000 of its 60000000 bytes are kept here)"
    )


def test_a_frame_of_ours_is_not_looked_at_for_nothing() -> None:
    """Data with fewer bytes than the limit of values cannot have too many values."""
    data = encode(
        TupleFrame(VERSION, "spout", 1, "default", 1, b"", b"", {}, [[[0] * (MOST_VALUES - 100)]])
    )
    assert len(data) < MOST_VALUES
    assert within(data)


def test_refusing_json_takes_no_call_per_string() -> None:
    """The check runs on the event loop, so it must not cost more than decoding.

    A call for each string or mark would be too slow.
    """
    data = b"[" + b'"a,",' * 399_000 + b'"a"]'
    calls = 0

    def hear(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(hear)
    try:
        check_json(data, 400_000)
    finally:
        sys.setprofile(None)
    assert calls < 50
