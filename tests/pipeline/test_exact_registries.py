"""Generated Avro, JSON and Protobuf values of each type: exact in their columns, or quarantined."""

import json
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, avro_records, json_schema_records, protobuf_records
from kstorm_pipeline.row_reading import read_rows
from kstorm_pipeline.settings import Settings
from tests.pipeline.exact_values import BAD, TYPES, read, tokens
from tests.pipeline.messages import File
from tests.pipeline.registered import Writer, begun
from tests.pipeline.test_exact_values import COLUMNS, plain, same, with_micros
from tests.pipeline.topic import bronze
from tests.registry_stub import RegistryStub

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

HEADER = b"\x00\x00\x00\x00\x01"
FIRST, LAST = -62_135_596_800, 253_402_300_799
"""The first and the last second of the years 1 to 9999."""


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with RegistryStub() as running:
        yield running


def rows_of(
    spark: SparkSession, pipeline: Pipeline, values: list[bytes], **micros: str
) -> list[Any]:
    """Return the rows, with the times of these columns in microseconds or days."""
    rows = read_rows(pipeline, bronze(spark, values)).drop("record")
    shown = {name: sf.expr(each) for name, each in micros.items()}
    return rows.withColumns(shown).orderBy("kafka_offset").collect()


# JSON


def test_registry_reads_json_exactly(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """2,800 values, with columns in SQL."""
    given = [(name, token) for name, kind in TYPES.items() for token in tokens(kind, 200, seed=3)]
    assert len(given) == 2_800
    stub.schemas, stub.subjects = {1: {"schema": "{}", "schemaType": "JSON"}}, {"orders-value": [1]}
    pipeline = begun(json_schema_records(columns=COLUMNS), settings, stub)
    values = [HEADER + f'{{"{name}":{token}}}'.encode() for name, token in given]
    rows = with_micros(read_rows(pipeline, bronze(spark, values)).drop("record"))
    for (name, token), row in zip(given, rows.orderBy("kafka_offset").collect(), strict=True):
        expected = read(TYPES[name], token)
        assert (row.reason is not None) == (expected is BAD), (TYPES[name], token, row.reason)
        if expected is not BAD:
            assert same(plain(row[name]), expected), (TYPES[name], token)


# Avro


def long(number: int) -> bytes:
    """Encode a number as Avro does."""
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number & ~0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def sized(data: bytes) -> bytes:
    return long(len(data)) + data


Case = tuple[bytes, Any]
"""An encoded value, and the value or BAD."""


def _near(chance: random.Random, *limits: int) -> int:
    return chance.choice(limits) + chance.randint(-2, 2)


def avro_int(chance: random.Random) -> Case:
    number = max(-(2**31), min(2**31 - 1, _near(chance, -(2**31), 0, 2**31 - 1)))
    return long(number), number


def avro_long(chance: random.Random) -> Case:
    number = max(-(2**63), min(2**63 - 1, _near(chance, -(2**63), 0, 2**53, 2**63 - 1)))
    return long(number), number


def avro_double(chance: random.Random) -> Case:
    number = chance.choice((0.1, -0.0, 5e-324, 1.7e308)) * chance.choice((1.0, chance.random()))
    return struct.pack("<d", number), number


def avro_string(chance: random.Random) -> Case:
    text = chance.choice((b"", b"a", "é😀".encode(), b"\x00", b"\xff", b"\xed\xa0\x80", b"a\xc3"))
    try:
        return sized(text), text.decode()
    except UnicodeDecodeError:
        return sized(text), BAD


def avro_bytes(chance: random.Random) -> Case:
    found = chance.randbytes(chance.randint(0, 4))
    return sized(found), found


def avro_decimal(chance: random.Random) -> Case:
    unscaled = _near(chance, 0, 10**9, -(10**9), 10**8, 10**12)
    found = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    return sized(found), Decimal(unscaled).scaleb(-2) if abs(unscaled) < 10**9 else BAD


def avro_date(chance: random.Random) -> Case:
    days = _near(chance, 0, FIRST // 86_400, LAST // 86_400, -(2**31) + 2, 2**31 - 3)
    return long(days), days if FIRST <= days * 86_400 <= LAST else BAD


def _times(unit: int) -> Callable[[random.Random], Case]:
    def make(chance: random.Random) -> Case:
        number = _near(chance, 0, FIRST * unit, (LAST + 1) * unit, -(2**63) + 2, 2**63 - 3)
        fits = FIRST * unit <= number < (LAST + 1) * unit
        return long(number), number * 1_000_000 // unit if fits else BAD

    return make


def avro_texts(chance: random.Random) -> Case:
    parts = [avro_string(chance) for _ in range(chance.randint(0, 3))]
    data = (long(len(parts)) + b"".join(part for part, _ in parts) if parts else b"") + b"\x00"
    values = [value for _, value in parts]
    return data, BAD if any(value is BAD for value in values) else values


AVRO: dict[str, tuple[Any, Callable[[random.Random], Case]]] = {
    "i": ("int", avro_int),
    "b": ("long", avro_long),
    "d": ("double", avro_double),
    "s": ("string", avro_string),
    "x": ("bytes", avro_bytes),
    "m": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, avro_decimal),
    "y": ({"type": "int", "logicalType": "date"}, avro_date),
    "a": ({"type": "long", "logicalType": "timestamp-millis"}, _times(1_000)),
    "u": ({"type": "long", "logicalType": "timestamp-micros"}, _times(1_000_000)),
    "l": ({"type": "array", "items": "string"}, avro_texts),
}


def test_registry_reads_avro_exactly(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """2,000 values. One in ten is cut off, or followed by bytes that no schema explains."""
    fields = [{"name": name, "type": ["null", kind]} for name, (kind, _) in AVRO.items()]
    schema = json.dumps({"type": "record", "name": "Row", "fields": fields})
    stub.schemas, stub.subjects = {1: {"schema": schema}}, {"orders-value": [1]}
    chance, given, values = random.Random(1), [], []
    for name in [*AVRO] * 200:
        data, expected = AVRO[name][1](chance)
        value = b"".join(b"\x02" + data if each == name else b"\x00" for each in AVRO)
        if chance.random() < 0.1:
            value, expected = chance.choice((value[:-1], value + b"\x00", value + value)), BAD
        given.append((name, expected))
        values.append(HEADER + value)
    assert len(given) == 2_000
    rows = rows_of(
        spark,
        begun(avro_records(), settings, stub),
        values,
        y="unix_date(CASE WHEN reason IS NULL THEN y END)",
        a="unix_micros(a)",
        u="unix_micros(u)",
    )
    counts = Counter[tuple[str, bool]]()
    for (name, expected), row, value in zip(given, rows, values, strict=True):
        assert (row.reason is not None) == (expected is BAD), (name, expected, row, value)
        if expected is not BAD:
            found = [str(each) for each in row[name]] if name == "l" else row[name]
            found = bytes(found) if isinstance(found, bytearray) else found
            assert same(found, expected), (name, expected, row)
        counts[name, row.reason is None] += 1
    assert min(counts[name, fits] for name in AVRO for fits in (True, False)) >= 8, counts


# Protobuf

ORDER = File().message(
    "Order",
    *("optional int32 i = 1", "optional uint32 n = 2", "optional sint64 b = 3"),
    *("optional uint64 u = 4", "optional double d = 5", "optional float f = 6"),
    *("optional string s = 7", "optional bytes x = 8", ".google.protobuf.Timestamp a = 9"),
    *("repeated uint64 l = 10", "map<string, uint32> c = 11"),
)


def protobuf_value(name: str, chance: random.Random) -> tuple[Any, Any]:
    """Return a value for a field, and its value in the column or BAD."""
    match name:
        case "i":
            number = chance.choice((-(2**31), 2**31 - 1, 7))
        case "n":
            number = chance.choice((2**32 - 1, 2**31, 7))
        case "b":
            number = chance.choice((-(2**63), 2**63 - 1, 2**53 + 1))
        case "u":
            number = chance.choice((2**64 - 1, 2**63, 7))
            return number, Decimal(number)
        case "d":
            return (found := chance.choice((0.1, 5e-324, 1.7e308, chance.random()))), found
        case "f":
            return (found := chance.choice((0.5, 16777216.0, 2.0**-149))), found
        case "s":
            return (text := chance.choice(("", "é😀", "\x00"))), text
        case "x":
            return (data := chance.randbytes(3)), data
        case "a":
            seconds = _near(chance, 0, FIRST, LAST, FIRST - 10**9, LAST + 10**9)
            nanos = chance.choice((0, 1_000, 999_999_000, 1, 999_999_999, -1, 10**9))
            fits = FIRST <= seconds <= LAST and nanos % 1_000 == 0 and 0 <= nanos < 10**9
            micros = seconds * 1_000_000 + nanos // 1_000
            return Timestamp(seconds=seconds, nanos=nanos), micros if fits else BAD
        case "l":
            numbers = [chance.choice((2**64 - 1, 0, 1)) for _ in range(chance.randint(1, 3))]
            return numbers, [Decimal(each) for each in numbers]
        case _:
            return (counts := {"k": 2**32 - 1}), counts
    return number, number


def test_registry_reads_protobuf_exactly(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """1,100 values. A time has no finer part than microseconds."""
    kind, names = ORDER.of("Order"), "inbudfsxalc"
    chance, given, values = random.Random(2), [], []
    for name in names * 100:
        value, expected = protobuf_value(name, chance)
        message = kind()
        if name in "l":
            message.l.extend(value)
        elif name == "c":
            message.c.update(value)
        elif name == "a":
            message.a.seconds, message.a.nanos = value.seconds, value.nanos
        else:
            setattr(message, name, value)
        data = message.SerializeToString()
        if chance.random() < 0.05:
            data, expected = data + b"\xff", BAD
        given.append((name, expected))
        values.append(b"\x00" + data)
    header = Writer(stub).protobuf(kind(i=1))[:5]
    pipeline = begun(protobuf_records(schema=kind), settings, stub)
    rows = rows_of(spark, pipeline, [header + value for value in values], a="unix_micros(a)")
    counts = Counter[tuple[str, bool]]()
    for (name, expected), row in zip(given, rows, strict=True):
        assert (row.reason is not None) == (expected is BAD), (name, expected, row)
        if expected is not BAD:
            found = bytes(row[name]) if name == "x" else row[name]
            assert same(found, expected), (name, expected, row)
        counts[name, row.reason is None] += 1
    assert len(given) == 1_100
    assert min(counts["a", True], counts["a", False]) >= 10


def test_times_may_be_cut(spark: SparkSession, settings: Settings, stub: RegistryStub) -> None:
    """To microseconds, if that is declared."""
    kind = ORDER.of("Order")
    message = kind()
    message.a.seconds, message.a.nanos = 1, 999_999_999
    value = Writer(stub).protobuf(message)
    cut, whole = (
        rows_of(
            spark,
            begun(protobuf_records(schema=kind, cut_times=each), settings, stub),
            [value],
            a="unix_micros(a)",
        )[0]
        for each in (True, False)
    )
    assert (cut.reason, cut.a) == (None, 1_999_999)
    assert (
        "nanoseconds, which a TIMESTAMP cannot hold: protobuf_records(cut_times=True)"
        in whole.reason
    )
    text = HEADER + b'{"at": "1970-01-01T00:00:01.999999999Z"}'
    stub.schemas, stub.subjects = {1: {"schema": "{}", "schemaType": "JSON"}}, {"orders-value": [1]}
    records = json_schema_records(columns="at TIMESTAMP", cut_times=True)
    (row,) = rows_of(spark, begun(records, settings, stub), [text], at="unix_micros(at)")
    assert (row.reason, row["at"]) == (None, 1_999_999)
