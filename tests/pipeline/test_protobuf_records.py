"""Protobuf from a schema registry: all column types, versions, unreadable records, crashed runs."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, PipelineError, protobuf_records
from kstorm_pipeline.row_reading import read_rows
from kstorm_pipeline.run import run
from kstorm_pipeline.schemas import find_schemas
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.pipeline.breaking import break_off_after
from tests.pipeline.messages import File
from tests.pipeline.registered import Writer, begun, read
from tests.pipeline.topic import Topic, as_of_stream, bronze
from tests.registry_stub import RegistryStub

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

AT = datetime(2026, 11, 23, 4, 5, 6, 789012, UTC)
ADDRESS = File(name="post/address.proto", package="post").message(
    "Address", "string city = 1", "optional string zip = 2"
)
ORDER = (
    File(ADDRESS)
    .enum("Status", "NEW", "SENT")
    .message(
        "Order",
        "string customer = 1", "oneof way string mail = 2", "oneof way uint64 box = 3", "optional string note = 4",
        "uint64 amount = 5", ".google.protobuf.Timestamp at = 6", "bool paid = 7", ".post.Address address = 8",
        "repeated string tags = 9", "map<string, int64> counts = 10",
        ":.shop.Status status = 11", "bytes raw = 12", "repeated .shop.Line lines = 13",
        "map<uint64, .post.Address> places = 14", ".google.protobuf.DoubleValue weight = 15", "float size = 16",
        "repeated .google.protobuf.Timestamp times = 17", "uint32 small = 18",
    )
    .message("Line", "string product = 1", "uint32 pieces = 2")
    .message("Refund", "string customer = 1")
)  # fmt: skip


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with RegistryStub() as running:
        yield running


def word(*more: str) -> Any:
    """Return the class of a version of `shop.Word`."""
    return File().message("Word", "string word = 1", *more).of("Word")


def full_order() -> Any:
    order = ORDER.of("Order")(
        customer="Zoë", box=2**64 - 1, note="", amount=2**63, paid=True, address={"city": "Kiel"}, tags=["a", "b"],
        counts={"x": -1}, status=1, raw=b"\x00\xff",
        lines=[{"product": "p", "pieces": 2**32 - 1}, {}], places={7: {"city": "Bonn", "zip": "1"}},
        weight={"value": 0.5}, size=1.5, small=3,
    )  # fmt: skip
    order.at.FromDatetime(AT)
    order.times.add().FromDatetime(AT)
    return order


COLUMNS = (
    "customer string, mail string, box decimal(20,0), note string, amount decimal(20,0), at timestamp, paid boolean,"
    " address struct<city:string,zip:string>, tags array<string>, counts map<string,bigint>, status string, raw binary,"
    " lines array<struct<product:string,pieces:bigint>>, places map<decimal(20,0),struct<city:string,zip:string>>, weight double,"
    " size float, times array<timestamp>, small bigint"
)


def test_every_message_type_becomes_a_delta_column(
    spark: SparkSession, settings: Settings, stub: RegistryStub, tmp_path: Path
) -> None:
    """An imported file comes from the registry too, and the columns exist before any record."""
    writer = Writer(stub)
    values = [writer.protobuf(full_order()), writer.protobuf(ORDER.of("Order")())]
    pipeline = begun(protobuf_records(key="name"), settings, stub)
    columns = find_schemas(spark, pipeline)["silver"]
    names = [each.split()[0] for each in COLUMNS.split(", ")]
    assert ", ".join(f"{name} {columns[name].dataType.simpleString()}" for name in names) == COLUMNS
    rows = read_rows(pipeline, bronze(spark, values)).drop("record")
    assert not [name for name in rows.columns if name.startswith("__")]
    rows.write.format("delta").save(str(tmp_path / "orders"))
    full, empty = (
        spark.read.format("delta").load(str(tmp_path / "orders")).orderBy("kafka_offset").collect()
    )
    assert (full.reason, empty.reason) == (None, None)
    found = full.asDict(recursive=True)
    assert [found["at"].astimezone(UTC), *(each.astimezone(UTC) for each in found["times"])] == [
        AT,
        AT,
    ]
    expected = {
        "customer": "Zoë", "mail": None, "box": Decimal(2**64 - 1), "note": "", "amount": Decimal(2**63), "paid": True,
        "address": {"city": "Kiel", "zip": None}, "tags": ["a", "b"], "counts": {"x": -1}, "status": "SENT", "raw": b"\x00\xff",
        "lines": [{"product": "p", "pieces": 2**32 - 1}, {"product": None, "pieces": None}],
        "places": {Decimal(7): {"city": "Bonn", "zip": "1"}}, "weight": 0.5, "size": 1.5, "small": 3,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    nothing = empty.asDict(recursive=True)
    assert {name: nothing[name] for name in names if nothing[name] is not None} == {
        "tags": [], "counts": {}, "lines": [], "places": {}, "times": [],
    }  # fmt: skip


@pytest.mark.slow
def test_versions_in_one_batch_are_read_by_field_numbers(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """An older version lacks a field, a newer one has more or other names. The columns are the
    reader's."""
    writer = Writer(stub)
    old = writer.protobuf(word("int32 size = 2")(word="a", size=1))
    newer = File().message(
        "Word", "string term = 1", "int64 size = 2", "optional string language = 3"
    )
    new = writer.protobuf(newer.of("Word")(term="b", size=2**40, language="de"))
    expected = [("a", 1, None), ("b", 2**40, "de")]
    for records in (
        protobuf_records(),
        protobuf_records(schema=newer.of("Word")),
        protobuf_records(
            schema=FileDescriptorSet(file=[newer.proto]).SerializeToString(), message="shop.Word"
        ),
        protobuf_records(subject="orders-value"),
    ):
        rows = read(spark, begun(records, settings, stub), [old, new])
        assert [(row.term, row.size, row.language) for row in rows] == expected
        assert [row.reason for row in rows] == [None, None]
    (row,) = read(spark, begun(protobuf_records(schema=word()), settings, stub), [new])
    assert (row.word, "size" in row) == ("b", False)


@pytest.mark.slow
def test_message_of_the_schema_is_selected_by_name(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """Records of other messages are quarantined with that reason."""
    writer = Writer(stub)
    values = [
        writer.protobuf(ORDER.of("Order")(customer="a")),
        writer.protobuf(ORDER.of("Refund")(customer="b")),
    ]
    first, second = read(
        spark, begun(protobuf_records(message="shop.Refund"), settings, stub), values
    )
    assert first.reason == "schema id 2: it is a shop.Order, and the pipeline reads shop.Refund"
    assert (second.reason, second.customer) == (None, "b")


def test_each_unreadable_record_has_a_reason(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """With the id, if it has one. Nothing raises, and good records among them are read."""
    writer, other = Writer(stub), Writer(stub, "other")
    timed = word(".google.protobuf.Timestamp at = 2", "repeated int32 sizes = 3")
    good = writer.protobuf(timed(word="cow"))
    older = other.protobuf(word("string at = 2")(word="a", at="noon"))
    avro = other.avro('{"type": "record", "name": "Word", "fields": []}', {})
    no_id = "the value does not begin with a schema id: byte 0, and 4 more"
    not_so = "schema id 1: the value does not match that schema"
    became = "field 2 (shop.Word.at) is string in the writer's schema, and message in the reader's"
    cases: list[tuple[bytes | None, str | None]] = [
        (None, "the value is null"),
        (b"", no_id),
        (b"\x00\x00\x00\x00", no_id),
        (b"\x00\x00\x00\x00\x4d\x00", "schema id 77: the schema registry does not have it"),
        (avro, "schema id 3: it is AVRO, not PROTOBUF"),
        (older, "schema id 2: it does not resolve to the reader's schema: " + became),
        (good[:5], not_so),
        (good[:5] + b"\x02\x08", not_so),
        (good[:6] + b"\x0a\x05a", not_so),
        (good[:6] + b"\x0a\x01\xff", not_so),
        (
            writer.protobuf(timed(at={"seconds": 2**40})),
            "schema id 1: field at has a time outside the years 1 to 9999",
        ),
        (
            good[:6] + b"\x1a\xc0\x84\x19" + bytes(410_176),
            "schema id 1: it has more than 400,000 values, including nested ones",
        ),
        (good, None),
        (good + b"\x9a\x06\x01x", None),
    ]
    rows = read(
        spark,
        begun(protobuf_records(subject="orders-value"), settings, stub),
        [value for value, _ in cases],
    )
    assert [row.reason for row in rows] == [reason for _, reason in cases]
    assert [row.word for row in rows[-2:]] == ["cow", "cow"]


@pytest.mark.slow
def test_reject_conditions_see_emitted_defaults(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    kind = word("int64 size = 2")
    values = [Writer(stub).protobuf(kind(word="a", size=size)) for size in (0, 9)]
    records = protobuf_records(reject={"too large": "size > 8"}, emit_defaults=True)
    rows = read(spark, begun(records, settings, stub), values)
    assert [(row.size, row.reason) for row in rows] == [(0, None), (9, "too large")]


@pytest.mark.slow
def test_a_record_is_decoded_once(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """However many columns and conditions use it."""
    value = Writer(stub).protobuf(word("int64 size = 2")(word="a", size=1))
    pipeline = begun(
        protobuf_records(reject={"small": "size < 1", "no": "word is null"}), settings, stub
    )
    rows = (
        read_rows(pipeline, as_of_stream(bronze(spark, [value])))
        .where("reason is null")
        .where(sf.col("size") > 0)
    )
    plan = rows.select("word", "size")._jdf.queryExecution().executedPlan().toString()
    assert plan.count("BatchEvalPython") == 1
    assert plan.count("read(") == 1, plan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "message"),
    [
        (protobuf_records(schema=b"\xff"), "the reader's Protobuf schema is not a descriptor set"),
        (protobuf_records(message="shop.Other"), r"no message 'shop.Other': correct message="),
        (
            protobuf_records(schema=File().message("Word", "string reason = 1").of("Word")),
            "a field 'reason'",
        ),
        (protobuf_records(subject="other"), "has no subject 'other'"),
        (
            protobuf_records(schema=File().message("Word", ".shop.Word next = 1").of("Word")),
            "shop.Word contains itself",
        ),
        (
            protobuf_records(subject="avro-value"),
            "the subject 'avro-value' is AVRO, and the pipeline reads PROTOBUF",
        ),
    ],
)
def test_invalid_readers_schema_is_refused_in_one_line(
    spark: SparkSession, settings: Settings, stub: RegistryStub, records: Any, message: str
) -> None:
    """Before anything is written."""
    Writer(stub).protobuf(word()(word="a"))
    Writer(stub, "avro").avro('{"type": "record", "name": "Word", "fields": []}', {})
    with pytest.raises(PipelineError, match=message) as error:
        find_schemas(spark, begun(records, settings, stub))
    assert "\n" not in str(error.value)


def test_schema_that_is_neither_a_class_nor_bytes_is_refused() -> None:
    with pytest.raises(
        PipelineError,
        match="a generated class or the bytes of a descriptor set as schema=, not 'syntax'",
    ):
        protobuf_records(schema="syntax")


@pytest.mark.slow
def test_registry_without_descriptors_is_refused(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """Its schema texts need a Protobuf compiler."""
    value = Writer(stub).protobuf(word()(word="a"))
    stub.serializes = False
    message = r"does not give schema id 1 as a serialized descriptor \(format=serialized\)"
    with pytest.raises(PipelineError, match=message):
        begun(protobuf_records(), settings, stub)
    with pytest.raises(PipelineError, match=message):
        read(spark, begun(protobuf_records(schema=word()), settings, stub), [value])


@pytest.mark.slow
def test_file_missing_in_the_registry_comes_from_the_readers_class(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """Serializers do not register files that every registry should have. Without the class, the
    error names the file."""
    value = Writer(stub).protobuf(ORDER.of("Order")(customer="a", address={"city": "Kiel"}))
    stub.schemas[2].pop("references")
    with pytest.raises(
        PipelineError,
        match=r"schema id 2 imports 'post/address\.proto', which is missing.* schema= that has it",
    ):
        begun(protobuf_records(), settings, stub)
    (row,) = read(spark, begun(protobuf_records(schema=ORDER.of("Order")), settings, stub), [value])
    assert (row.reason, row.address.city) == (None, "Kiel")


class Words:
    """A topic of words in Protobuf, and the tables made from it."""

    def __init__(
        self, spark: SparkSession, settings: Settings, tables: Path, stub: RegistryStub
    ) -> None:
        self.topic = Topic(settings.bootstrap_servers, 1)
        self.spark, self.tables = spark, Tables(str(tables))
        self._settings = replace(
            settings, tables=self.tables.root, topic=self.topic.topic, schema_registry=stub.url
        )
        self._pipeline = Pipeline(records=protobuf_records())
        self._writer = Writer(stub, self.topic.topic)

    def put(self, message: Any) -> None:
        self.topic.put(self._writer.protobuf(message))

    def run(self) -> None:
        self.topic.flush()
        run(self.spark, self._settings, self.tables, self._pipeline)

    def rows(self, *columns: str) -> list[Any]:
        silver = self.tables.read(self.spark, "silver").orderBy("kafka_offset")
        return [tuple(row) for row in silver.select(*columns).collect()]

    def reasons(self) -> list[str]:
        return [
            row.reason
            for row in self.tables.read(self.spark, "quarantine").orderBy("offset").collect()
        ]


@pytest.mark.long
def test_repeated_batch_uses_its_original_schema(
    spark: SparkSession,
    settings: Settings,
    tmp_path: Path,
    stub: RegistryStub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Although there is a later one. The next run uses the later one, and silver gets its column.
    Nothing is duplicated."""
    words = Words(spark, settings, tmp_path, stub)
    words.put(word()(word="a"))
    words.topic.put(struct.pack(">bI", 0, 99) + b"garbage")
    with monkeypatch.context() as patch:
        break_off_after("write_silver", patch)
        with pytest.raises(PipelineError, match="a query failed"):
            words.run()
    assert words.rows("word") == [("a",)]
    newer = word("optional int64 size = 2")
    words.put(newer(word="b", size=1))
    words.run()
    assert words.rows("word") == [("a",), ("b",)]
    words.put(newer(word="c", size=2))
    words.run()
    assert words.rows("word", "size") == [("a", None), ("b", None), ("c", 2)]
    assert words.reasons() == ["schema id 99: the schema registry does not have it"]
