"""The bolt's serializers, its modes of waiting, and lineage."""

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from kstorm.errors import ConfigError, NotYetError
from kstorm.kafka import (
    BytesSerializer,
    FieldNameBasedTupleToKafkaMapper,
    IntegerSerializer,
    JsonSerializer,
    KafkaBolt,
    LongSerializer,
    StringSerializer,
)
from kstorm.kafka.serializer import AnySerializer, to_bytes, to_json
from kstorm.kafka.traceparent import parse, trace_prefix
from kstorm.testing import FeederSpout
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import Fields, Source, TopologyBuilder, Tuple, TupleBatch
from kstorm.trident.sink import JsonMapper
from tests.unit.kafka.test_kafka_bolt import prepared, tup

if TYPE_CHECKING:
    from tests.unit.kafka.conftest import World


@pytest.mark.parametrize(
    ("serializer", "value", "written"),
    [
        (StringSerializer(), "wörd", "wörd".encode()),
        (BytesSerializer(), bytearray(b"ab"), b"ab"),
        (JsonSerializer(), "a", b'"a"'),
        (JsonSerializer(), {"a": [1]}, b'{"a":[1]}'),
        (IntegerSerializer(), -2, b"\xff\xff\xff\xfe"),
        (LongSerializer(), 2**40, b"\x00\x00\x01\x00\x00\x00\x00\x00"),
    ],
)
def test_a_serializer_writes_as_kafkas_own_does(
    world: "World", serializer: Any, value: Any, written: bytes
) -> None:
    """This holds for key and message, and for tuples and batches. None stays None."""
    bolt = (
        KafkaBolt()
        .with_topic_selector("t")
        .with_key_serializer(serializer)
        .with_value_serializer(serializer)
    )
    prepared(world, bolt)
    bolt.execute(tup(value, value))
    assert world.writer.records[0][1:3] == (written, written)
    bolt.execute_batch(TupleBatch(tup().source, [[value, None], [value, None], ["", ""]]))
    assert world.writer.batches[0][1:3] == ([written, None], [written, None])


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (JsonSerializer(), float("nan")),
        (JsonSerializer(), [1, {"a": float("inf")}]),
        (AnySerializer(), float("-inf")),
        (AnySerializer(), {"a": [None, float("nan")]}),
        (StringSerializer(), b"a"),
        (BytesSerializer(), "a"),
        (IntegerSerializer(), True),
        (IntegerSerializer(), 2**31),
        (LongSerializer(), "1"),
        (JsonSerializer(), object()),
    ],
)
def test_serializer_refuses_other_types(world: "World", serializer: Any, value: Any) -> None:
    """The error fails the tuple. A batch writes nothing, so that only the bad tuples fail."""
    bolt = KafkaBolt().with_topic_selector("t").with_value_serializer(serializer)
    prepared(world, bolt)
    with pytest.raises((TypeError, ValueError, OverflowError)):
        bolt.execute(tup(message=value))
    with pytest.raises((TypeError, ValueError, OverflowError)):
        bolt.execute_batch(TupleBatch(tup().source, [["k", "k"], [None, value], ["", ""]]))
    assert (world.writer.records, world.writer.batches) == ([], [])


def test_mapper_handles_frames_only_if_its_own_class_does(world: "World") -> None:
    """A subclass may take other fields, so it writes tuple by tuple. JSON is the same either way."""

    class Loud(FieldNameBasedTupleToKafkaMapper):
        def get_message_from_tuple(self, tuple: Tuple) -> str:
            return str(tuple["message"]).upper()

    batch = TupleBatch(tup().source, [["k", "l"], ["m", None], ["t", "t"]])
    loud = KafkaBolt().with_topic_selector("t").with_tuple_to_kafka_mapper(Loud())
    prepared(world, loud)
    assert loud.execute_batch(batch) is NotImplemented
    for mapper in (JsonMapper("key"), JsonMapper()):
        bolt = KafkaBolt().with_topic_selector("t").with_tuple_to_kafka_mapper(mapper)
        prepared(world, bolt)
        bolt.execute_batch(batch)
        for one in batch.tuples():
            bolt.execute(one)
        keys, values = world.writer.batches.pop()[1:3]
        written = [None if key is None else key.encode() for key in keys]  # librdkafka accepts text
        assert list(zip(written, values, strict=True)) == [
            record[1:3] for record in world.writer.records
        ]
        world.writer.records.clear()


async def test_sync_waits_for_each_record(world: "World") -> None:
    """The next tuple is executed after the broker has this record and the task acks this tuple."""
    bolt = KafkaBolt().with_topic_selector("t").with_async(False)
    outcomes = prepared(world, bolt)
    for error, ended in ((None, outcomes.acked), ("refused", outcomes.failed)):
        tuple = tup()
        executing = bolt.execute(tuple)
        assert executing is not None
        waiting = asyncio.ensure_future(executing)
        await asyncio.sleep(0)
        assert not waiting.done()
        assert ended == []
        world.writer.records[-1][-1](error, object())
        await waiting
        assert ended == [tuple]
    assert bolt.execute_batch(TupleBatch(tup().source, [["k"], ["m"], ["t"]])) is NotImplemented


def test_fire_and_forget_acks_before_the_broker_has_it(world: "World") -> None:
    """Records that the broker then refuses are counted as lost, and reported once."""
    bolt = KafkaBolt().with_topic_selector("t").with_fire_and_forget()
    outcomes = prepared(world, bolt)
    bolt.execute(tup())
    bolt.execute_batch(TupleBatch(tup().source, [["k"] * 3, ["m"] * 3, ["t"] * 3]))
    assert len(outcomes.acked) == 4
    world.writer.records[0][-1]("refused", object())
    world.writer.batches[0][-1](["refused", "refused"])
    assert outcomes.failed == []
    assert bolt.metrics() == {"written": 1, "skipped": 0, "held": 0, "expired": 0, "lost": 3}
    assert ["are lost: refused" in str(error) for error in outcomes.errors] == [True]


@pytest.mark.parametrize("name", ["acks", "request.required.acks"])
def test_acks_0_is_refused_without_fire_and_forget(world: "World", name: str) -> None:
    """Losses are then unknown, so the user must choose fire-and-forget explicitly."""
    bolt = KafkaBolt().with_topic_selector("t").with_producer_properties({name: 0})
    with pytest.raises(
        ConfigError, match=rf"'sink' has the producer property {name}=0.*\.with_fire_and_forget"
    ):
        prepared(world, bolt)
    prepared(world, bolt.with_fire_and_forget())
    assert world.own_writers == [{name: 0}]


def test_sync_with_fire_and_forget_is_refused(world: "World") -> None:
    """The error avoids silently ignoring one of the two."""
    bolt = KafkaBolt().with_topic_selector("t").with_fire_and_forget().with_async(False)
    with pytest.raises(ConfigError, match="'sink' cannot both wait for each record and for none"):
        prepared(world, bolt)


class Asking:
    """A serializer whose answer the test sets."""

    answer: Exception | None = NotYetError("the registry does not answer")

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if self.answer is not None:
            raise self.answer
        return str(value).encode()


@pytest.mark.parametrize("sync", [True, False])
async def test_tuples_wait_for_their_serializer(
    world: "World", sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written in order, without an ack or fail meanwhile. A long wait is reported once."""
    monkeypatch.setattr("kstorm.kafka.bolt._TRY_AGAIN_SECS", 0.001)
    monkeypatch.setattr("kstorm.kafka.bolt._TELL_AFTER", 3)
    monkeypatch.setattr(Asking, "answer", Asking.answer)
    bolt = KafkaBolt().with_topic_selector("t").with_value_serializer(Asking()).with_async(not sync)
    outcomes = prepared(world, bolt)
    batch = TupleBatch(tup().source, [["k"] * 2, [1, 2], ["t"] * 2])
    assert bolt.execute_batch(batch) is NotImplemented
    executing = [
        asyncio.ensure_future(done)
        for each in batch.tuples()
        if (done := bolt.execute(each)) is not None
    ]
    async with asyncio.timeout(10):
        while not outcomes.errors:
            await asyncio.sleep(0.001)
    assert (outcomes.acked, outcomes.failed, world.writer.records) == ([], [], [])
    assert bolt.metrics()["held"] == (0 if sync else 2)
    monkeypatch.setattr(Asking, "answer", None)
    if not sync:
        assert bolt.execute_batch(TupleBatch(tup().source, [["k"], [3], ["t"]])) is NotImplemented
        bolt.execute(tup(message=3))
    async with asyncio.timeout(10):
        while len(world.writer.records) < (2 if sync else 3):
            await asyncio.sleep(0.001)
    assert [record[2] for record in world.writer.records] == (
        [b"1", b"2"] if sync else [b"1", b"2", b"3"]
    )
    for record in world.writer.records:
        record[-1](None, object())
    await asyncio.gather(*executing)
    assert len(outcomes.acked) == len(world.writer.records)
    assert [str(error) for error in outcomes.errors] == ["the registry does not answer"]


async def test_tuple_with_a_refused_schema_fails(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """No caller receives the late exception, so the bolt itself must fail the tuple."""
    monkeypatch.setattr("kstorm.kafka.bolt._TRY_AGAIN_SECS", 0.001)
    monkeypatch.setattr(Asking, "answer", Asking.answer)
    bolt = KafkaBolt().with_topic_selector("t").with_value_serializer(Asking())
    outcomes = prepared(world, bolt)
    tuples = [tup(), tup()]
    for each in tuples:
        bolt.execute(each)
    monkeypatch.setattr(Asking, "answer", ValueError("incompatible"))
    async with asyncio.timeout(10):
        while len(outcomes.failed) < 2:
            await asyncio.sleep(0.001)
    assert outcomes.failed == tuples
    assert "incompatible" in str(outcomes.errors[0])


def test_lineage_is_written_as_headers(world: "World") -> None:
    """Roots come from the tuple, and coordinates from its fields, for single tuples and batches."""
    bolt = KafkaBolt().with_topic_selector("t").with_lineage("lines", part="position")
    prepared(world, bolt)
    source = Source(
        "split", "default", 1, Fields("key", "message", "partition", "offset", "position")
    )
    bolt.execute(Tuple(["k", "m", 3, 70, 2], source, root=10, more={255: 1}))
    place = [
        ("kstorm-source-topic", "lines"),
        ("kstorm-source-partition", "3"),
        ("kstorm-source-offset", "70"),
        ("kstorm-source-part", "2"),
    ]
    assert world.writer.headers == [[("kstorm-roots", "000000000000000a,00000000000000ff"), *place]]
    ids = np.array([10, 2**64 - 1], np.uint64)
    bolt.execute_batch(
        TupleBatch(source, [["k"] * 2, ["m"] * 2, [3, 3], [70, 71], [2, 0]], ids, ids)
    )
    (first, second) = world.writer.headers[1:]
    assert first == [("kstorm-roots", "000000000000000a"), *place]
    assert dict(second)["kstorm-roots"] == "f" * 16
    assert dict(second)["kstorm-source-offset"] == "71"


def test_lineage_contains_only_known_origins(world: "World") -> None:
    """Without the fields, tracking or a topic, the record has no headers rather than wrong ones."""
    bolt = KafkaBolt().with_topic_selector("t").with_lineage()
    prepared(world, bolt)
    bolt.execute(tup())
    bolt.execute_batch(TupleBatch(tup().source, [["k"], ["m"], ["t"]]))
    assert world.writer.headers == [[], []]


def test_without_lineage_no_headers_are_written(world: "World") -> None:
    """The headers cost time only if they are on."""
    bolt = KafkaBolt().with_topic_selector("t")
    prepared(world, bolt)
    bolt.execute(tup())
    bolt.execute_batch(TupleBatch(tup().source, [["k"], ["m"], ["t"]]))
    assert world.writer.headers == []


def test_the_header_traceparent_is_the_tuples_span(world: "World") -> None:
    """The header has the W3C format, and is the same for single tuples and batches.

    With several trees, the first one counts. A tuple without a tree has no header.
    """
    bolt = KafkaBolt().with_topic_selector("t").with_lineage(traceparent=True, sampled=0.5)
    prepared(world, bolt)
    source = tup().source
    trees = [(2**56 - 1, 7), (2**64 - 1, 2**64 - 1), (2**63 + 1, 9), (0, 0), (5, 0)]
    for root, edge in trees:
        bolt.execute(
            Tuple(
                ["k", "m", "t"], source, root=root, edge=edge, more={255: 1} if edge == 7 else None
            )
        )
    one_by_one = [dict(headers).get("traceparent") for headers in world.writer.headers]
    hashed = trace_prefix(bolt.context.topology.name)
    assert one_by_one == [
        f"00-{hashed:016x}00ffffffffffffff-0000000000000007-03",
        f"00-{hashed:016x}ffffffffffffffff-ffffffffffffffff-03",
        # its last 56 bits are low, so it is not sampled
        f"00-{hashed:016x}8000000000000001-0000000000000009-02",
        None,
        None,
    ]
    read = [parse(str(header)) for header in one_by_one[:3]]
    assert [parent and (parent.trace & (2**64 - 1), parent.span) for parent in read] == trees[:3]
    roots, edges = (np.array(column, np.uint64) for column in zip(*trees, strict=True))
    bolt.execute_batch(TupleBatch(source, [["k"] * 5, ["m"] * 5, ["t"] * 5], roots, edges))
    assert [dict(headers).get("traceparent") for headers in world.writer.headers[5:]] == one_by_one


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_invalid_sampling_share_is_refused(share: float) -> None:
    """The call that sets it raises the error."""
    with pytest.raises(ConfigError, match=r"sampled is .*: it must be a number from 0 to 1"):
        KafkaBolt().with_lineage(traceparent=True, sampled=share)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00-0-0-0",
        f"00-{'0' * 32}-{'b' * 16}-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        f"00-{'A' * 32}-{'b' * 16}-01",
        f"ff-{'a' * 32}-{'b' * 16}-01",
        f"00-{'a' * 32}-{'b' * 16}-01-more",
        f"01-{'a' * 32}-{'b' * 16}-01more",
        f"00-{'a' * 32}-{'b' * 16}-01\n",
    ],
)
def test_invalid_traceparent_is_not_parsed(header: str) -> None:
    """The rules are those of W3C."""
    assert parse(header) is None


def test_a_traceparent_of_a_later_version() -> None:
    """Its known part is read."""
    for end in ("", "-more"):
        assert parse(f"cc-{'a' * 32}-{'b' * 16}-01{end}") == (
            int("a" * 32, 16),
            int("b" * 16, 16),
            1,
        )


def test_nan_is_refused_in_json() -> None:
    """JSON would hold null. The error names the place and the remedy."""
    where = re.escape("the value at ['a'][1]['b'] is nan, which JSON does not have: replace it")
    with pytest.raises(ValueError, match=where):
        to_json({"n": None, "a": [1, {"b": float("nan")}]})
    with pytest.raises(ValueError, match="the value is inf"):
        to_bytes(float("inf"))
    with pytest.raises(ValueError, match=re.escape("the value at ['x'] is -inf")):
        to_json(Measured(-float("inf")))
    with pytest.raises(ValueError, match=re.escape("the value at ['x'][0] is nan")):
        to_json(Measured((float("nan"), 2**70)))


@dataclass
class Measured:
    x: Any


@pytest.mark.parametrize(
    "value",
    [None, {"a": None}, "null", ["null", 1e308], {"null": 2**70}, b"\xcb\x7f\xf0", {1, None}],
    ids=repr,
)
def test_null_of_another_meaning_is_written(value: Any) -> None:
    """The values are None, and texts and bytes that look like it."""
    assert to_json(value) == msgspec.json.encode(value)


def test_not_a_number_as_null_by_option() -> None:
    serializer = JsonSerializer(nan_as_null=True)
    assert serializer.serialize("t", {"a": [float("nan"), 1]}) == b'{"a":[null,1]}'
    with pytest.raises(ConfigError, match=re.escape("JsonSerializer(nan_as_null='yes'): give")):
        JsonSerializer(nan_as_null="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("mapper", [None, JsonMapper()], ids=["serializer", "stream"])
def test_only_the_tuple_without_a_number_fails(mapper: Any) -> None:
    """The others in its frame are written."""
    kafka = FakeKafka({"t": 1})
    bolt = KafkaBolt().with_topic_selector("t")
    bolt.with_tuple_to_kafka_mapper(mapper or FieldNameBasedTupleToKafkaMapper("key", "message"))
    builder = TopologyBuilder("numbers")
    spout = FeederSpout("key", "message")
    builder.set_spout("in", spout)
    builder.set_bolt("out", bolt).shuffle_grouping("in")
    with kafka.cluster(builder.build()) as cluster:
        for number, message in enumerate([1.5, float("nan"), [2.5], [float("inf")]]):
            spouted: Any = cluster.topology.component("in").component
            spouted.feed(["k", message], number)
        cluster.run_until_idle()
        cluster.advance_time(1)
        assert (cluster.acked("in"), cluster.failed("in")) == ([0, 2], [1, 3])
        written = [record.value() for record in kafka.records("t")]
    if mapper is None:
        assert written == [b"1.5", b"[2.5]"]
    else:
        assert written == [b'{"key":"k","message":1.5}', b'{"key":"k","message":[2.5]}']
