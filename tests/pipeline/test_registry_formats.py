"""Columns from a registry's Avro and JSON Schema schemas, and from their older versions."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kstorm_pipeline import PipelineError, avro_records, json_schema_records
from kstorm_pipeline.schemas import find_schemas
from kstorm_pipeline.settings import Settings
from tests.pipeline.registered import Writer, begun, read
from tests.registry_stub import RegistryStub

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

AT = datetime(2026, 11, 23, 4, 5, 6, 789000, UTC)


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with RegistryStub() as running:
        yield running


def avro(*fields: dict[str, Any], **more: Any) -> str:
    return json.dumps(
        {"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields), **more}
    )


CUSTOMER = {"name": "customer", "type": "string"}
AVRO = avro(
    CUSTOMER,
    {"name": "note", "type": ["null", "string"], "default": None},
    {
        "name": "amount",
        "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2},
    },
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    {"name": "paid", "type": "boolean"},
    {
        "name": "address",
        "type": {
            "type": "record",
            "name": "Address",
            "fields": [
                {"name": "city", "type": "string"},
                {"name": "zip", "type": ["null", "string"]},
            ],
        },
    },
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "counts", "type": {"type": "map", "values": "long"}},
    {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "SENT"]}},
)
ORDER = {
    "customer": "Zoë",
    "note": None,
    "amount": Decimal("12345678901234.56"),
    "at": AT,
    "day": date(2026, 11, 23),
    "paid": True,
    "address": {"city": "Kiel", "zip": None},
    "tags": ["a", "b"],
    "counts": {"x": 1},
    "status": "SENT",
}


def test_every_avro_type(spark: SparkSession, settings: Settings, stub: RegistryStub) -> None:
    """Decimals keep their digits, times are times, null is null. The columns exist before any
    record."""
    value = Writer(stub).avro(AVRO, ORDER)
    pipeline = begun(avro_records(key="name"), settings, stub)
    columns = find_schemas(spark, pipeline)["silver"]
    assert (columns["amount"].dataType.simpleString(), columns["at"].dataType.simpleString()) == (
        "decimal(18,2)",
        "timestamp",
    )
    (row,) = read(spark, pipeline, [value])
    assert row.reason is None
    found = row.asDict(recursive=True)
    assert found["at"].astimezone(UTC) == AT
    assert {name: found[name] for name in ORDER if name != "at"} == {
        name: ORDER[name] for name in ORDER if name != "at"
    }
    assert not [name for name in row.asDict() if name.startswith("__")]


@pytest.mark.slow
def test_two_avro_versions_in_one_batch(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """Each is read with its own schema: numbers are promoted, missing fields get defaults,
    additional fields are dropped. The columns are the reader's."""
    writer = Writer(stub)
    old = writer.avro(
        avro(CUSTOMER, {"name": "amount", "type": "int"}), {"customer": "a", "amount": 1}
    )
    language = {"name": "language", "type": "string", "default": "en"}
    newer = avro({"name": "amount", "type": "long"}, CUSTOMER, language)
    new = writer.avro(newer, {"customer": "b", "amount": 2**40, "language": "de"})
    expected = [("a", 1, "en"), ("b", 2**40, "de")]
    for records in (
        avro_records(),
        avro_records(schema=newer),
        avro_records(subject="orders-value"),
    ):
        rows = read(spark, begun(records, settings, stub), [old, new])
        assert [(row.customer, row.amount, row.language) for row in rows] == expected
        assert [row.reason for row in rows] == [None, None]
    rows = read(spark, begun(avro_records(schema=avro(CUSTOMER)), settings, stub), [new])
    assert (rows[0].customer, "amount" in rows[0]) == ("b", False)


@pytest.mark.slow
def test_incompatible_avro_schema_has_a_reason(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """With the id and the difference between the two schemas."""
    writer = Writer(stub)
    old = writer.avro(avro(CUSTOMER), {"customer": "a"})
    new = writer.avro(
        avro(CUSTOMER, {"name": "amount", "type": "long"}), {"customer": "b", "amount": 1}
    )
    first, second = read(spark, begun(avro_records(), settings, stub), [old, new])
    assert first.reason == (
        "schema id 1: it does not resolve to the reader's schema: reader field missing default value, amount at /fields/1"
    )
    assert (second.reason, second.amount) == (None, 1)


@pytest.mark.slow
def test_avro_with_references(spark: SparkSession, settings: Settings, stub: RegistryStub) -> None:
    """To types of other subjects and their references, by full and short names, more than once."""
    street = {
        "type": "record",
        "name": "Street",
        "namespace": "post",
        "fields": [{"name": "name", "type": "string"}],
    }
    address = {
        "type": "record",
        "name": "post.Address",
        "fields": [{"name": "street", "type": "Street"}],
    }
    order = avro(
        {"name": "to", "type": "post.Address"},
        {"name": "from", "type": ["null", "post.Address"], "default": None},
    )
    stub.schemas = {
        1: {"schema": json.dumps(street)},
        2: {
            "schema": json.dumps(address),
            "references": [{"name": "post.Street", "subject": "street", "version": 1}],
        },
        3: {
            "schema": order,
            "references": [{"name": "post.Address", "subject": "address", "version": 1}],
        },
    }
    stub.subjects = {"street": [1], "address": [2], "orders-value": [3]}
    (row,) = read(
        spark, begun(avro_records(), settings, stub), [b"\x00\x00\x00\x00\x03\x06Elm\x02\x06Oak"]
    )
    assert (row.reason, row.to.street.name, row["from"].street.name) == (None, "Elm", "Oak")


JSON = {
    "type": "object",
    "properties": {
        "customer": {"type": "string"},
        "note": {"type": ["null", "string"]},
        "amount": {"type": "number"},
        "pieces": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "address": {"$ref": "#/definitions/address"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "status": {"enum": ["NEW", "SENT"]},
        "rest": {},
    },
    "required": ["customer", "at"],
    "definitions": {
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        }
    },
}


def test_every_json_schema_type(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """Columns come from the properties. Objects are read as strictly as plain JSON."""
    full = {
        "customer": "Zoë", "note": None, "amount": 1.5, "pieces": 3, "at": "2026-11-23T04:05:06.789Z", "day": "2026-11-23",
        "address": {"city": "Kiel"}, "tags": ["a"], "counts": {"x": 1}, "status": "NEW", "rest": {"any": [1, "two"]},
    }  # fmt: skip
    value = Writer(stub).json(json.dumps(JSON), full)
    wrong = value[:5] + b'{"customer": "a", "at": "2026-11-23T04:05:06Z", "address": {}}'
    less = value[:5] + b'{"customer": "a"}'
    pipeline = begun(json_schema_records(), settings, stub)
    row, second, third = read(spark, pipeline, [value, wrong, less])
    found = row.asDict(recursive=True)
    assert (row.reason, found["at"].astimezone(UTC), found["day"], found["rest"].toPython()) == (
        None,
        AT,
        date(2026, 11, 23),
        full["rest"],
    )
    plain = ("customer", "note", "amount", "pieces", "address", "tags", "counts", "status")
    assert [found[name] for name in plain] == [full[name] for name in plain]
    assert second.reason == "schema id 1: field address does not fit STRUCT<CITY:STRING>: OBJECT<>"
    assert third.reason == "schema id 1: field at is missing"


@pytest.mark.slow
def test_json_schema_with_declared_columns(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """SQL has types that JSON Schema lacks. Conditions and the key work as for plain JSON."""
    value = Writer(stub).json(
        json.dumps(JSON), {"customer": "a", "at": "2026-11-23T04:05:06Z", "amount": 12.34}
    )
    records = json_schema_records(
        columns="amount DECIMAL(18,2)", reject={"too much": "amount > 12.34"}
    )
    rows = read(spark, begun(records, settings, stub), [value, value.replace(b"12.34", b"12.35")])
    assert [(row.amount, row.reason) for row in rows] == [
        (Decimal("12.34"), None),
        (Decimal("12.35"), "too much"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "message"),
    [
        (avro_records(schema="{"), "the reader's Avro schema is not a record schema"),
        (avro_records(schema=avro({"name": "reason", "type": "string"})), "a field 'reason'"),
        (
            avro_records(schema=avro({"name": "a", "type": "none"})),
            "Spark cannot make columns of the reader's Avro schema",
        ),
        (
            avro_records(subject="other"),
            r"has no subject 'other': correct --schema-registry, or give the records their subject=",
        ),
        (
            json_schema_records(),
            "the subject 'orders-value' is AVRO, and the pipeline reads JSON: correct records=",
        ),
        (json_schema_records(schema='{"type": "string"}'), "has no properties that can be columns"),
    ],
)
def test_invalid_readers_schema_is_refused_in_one_line(
    spark: SparkSession, settings: Settings, stub: RegistryStub, records: Any, message: str
) -> None:
    """Before anything is written."""
    Writer(stub).avro(avro(CUSTOMER), {"customer": "a"})
    with pytest.raises(PipelineError, match=message) as error:
        find_schemas(spark, begun(records, settings, stub))
    assert "\n" not in str(error.value)
