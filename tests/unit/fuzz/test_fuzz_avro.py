"""Avro of a schema registry: data that decodes too large, deep or slowly is refused early.

Valid data is accepted.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from kstorm.errors import NotYetError
from kstorm.kafka.message_limits import MOST_VALUES
from kstorm.registry import AvroScheme, SchemaRegistry
from kstorm.registry.avro_limits import count
from kstorm.registry.avro_plan import MOST_DECIMAL_BYTES, MOST_LEVELS, plan_of
from tests.registry_stub import RegistryStub
from tests.unit.fuzz.extents import TO_SPARE, counted, memory_of, read_all

HEAD = b"\x00\x00\x00\x00\x01"


def number(value: int) -> bytes:
    """Encodes an int or a long as Avro does."""
    left, out = (value << 1) ^ (value >> 63), bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields],
    }


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapping(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def doubling(levels: int) -> Any:
    """Builds nested records, each with two of the next level, that take no bytes."""
    made = record(("x", "null"), name="A0")
    for level in range(levels):
        made = record(("a", made), ("b", f"A{level}"), name=f"A{level + 1}")
    return made


LIST = record(("next", ["null", "R"]))
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
NOTHING = {"type": "fixed", "name": "F", "size": 0}

BOMBS: dict[str, tuple[Any, bytes]] = {
    "small records": (array(record(("v", "int"))), number(4_000_000) + b"\x02" * 4_000_000 + b"\0"),
    "wide records": (
        array(record(*((f"n{at}", "null") for at in range(500)), ("v", "int"))),
        number(1000) + b"\x02" * 1000 + b"\0",
    ),
    "empty arrays": (array(array("int")), number(4_000_000) + b"\0" * 4_000_000 + b"\0"),
    "empty maps": (array(mapping("int")), number(4_000_000) + b"\0" * 4_000_000 + b"\0"),
    "a map": (
        mapping("null"),
        number(400_000) + b"".join(b"\x06%03x" % (at % 4096) for at in range(400_000)) + b"\0",
    ),
    "nulls": (array("null"), number(2**60) + b"\0"),
    "nulls, and their bytes": (array("null"), number(-(2**60)) + b"\0\0"),
    "as many nulls as there can be": (array("null"), number(-(2**63)) + b"\0\0"),
    "blocks of nulls": (array("null"), (number(1000) + number(-1000) + b"\0") * 400 + b"\0"),
    "records of nothing": (array(record()), number(2**40) + b"\0"),
    "fixed of nothing": (array(NOTHING), number(2**40) + b"\0"),
    "records within records": (doubling(30), b"\0"),
    "two of each": (array(array("null")), number(10) + (number(99_999) + b"\0") * 10 + b"\0"),
    "by a union": (
        array(["null", record(("a", "null"))]),
        number(400_000) + b"\x02" * 400_000 + b"\0",
    ),
}


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with RegistryStub() as running:
        yield running


@pytest.fixture
def reading(stub: RegistryStub) -> Iterator[Callable[..., Any]]:
    """Return a function that decodes Avro of a schema with a scheme, without the registry's header."""
    opened: list[AvroScheme] = []

    def read(schema: Any, body: bytes, head: bytes = HEAD, **settings: Any) -> Any:
        if not stub.schemas:
            stub.schemas[1] = {"schema": json.dumps(record(("a", schema), name="Root"))}
        if not opened:
            opened.append(AvroScheme(SchemaRegistry(stub.url), "a", **settings))
            opened[0].open()
        deadline = time.monotonic() + 20
        while True:
            try:
                return next(iter(opened[0].deserialize(head + body)))
            except NotYetError:
                assert time.monotonic() < deadline
                time.sleep(0.002)

    yield read
    for scheme in opened:
        scheme.close()


@pytest.mark.parametrize("name", BOMBS)
def test_record_with_too_many_values_is_not_decoded(name: str, reading: Callable[..., Any]) -> None:
    """The refusal takes almost no time and memory."""
    schema, body = BOMBS[name]
    with pytest.raises(ValueError, match="more than 10 values"):
        reading(schema, body[:6000], most_values=10)


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_refused_cheaply(name: str, reading: Callable[..., Any]) -> None:
    schema, body = BOMBS[name]

    def read() -> None:
        with pytest.raises(ValueError, match="more than 400,000 values, including nested ones"):
            reading(schema, body)

    began = time.process_time()
    assert memory_of(read) < 20_000_000
    assert time.process_time() - began < 5


def test_bomb_becomes_a_dead_letter_and_later_messages_are_read(
    reading: Callable[..., Any], stub: RegistryStub
) -> None:
    good = number(1) + b"\0"
    assert reading(array("null"), good) == [None]
    scheme = AvroScheme(SchemaRegistry(stub.url), "a")
    scheme.open()
    try:
        letters, rows = read_all(scheme, [HEAD + number(2**40) + b"\0", HEAD + good])
    finally:
        scheme.close()
    ((offset, reason),) = [(letter.offset, letter.reason) for letter in letters]
    assert offset == 0
    assert "more than 400,000 values" in reason
    assert rows == [[[None]]]


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 5000, 1_000_000])
def test_too_deeply_nested_record_is_not_decoded(levels: int, reading: Callable[..., Any]) -> None:
    """The decoder is recursive, and 5 kB are enough to overrun the stack and end the process."""
    with pytest.raises(ValueError, match="more than 200 levels deep"):
        reading(LIST, b"\x02" * levels + b"\0")


def test_endless_recursion_is_not_decoded(reading: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="more than 200 levels deep"):
        reading(record(("self", "R")), b"\0")


def test_nesting_up_to_the_limit_is_read(reading: Callable[..., Any]) -> None:
    found = reading(LIST, b"\x02" * (MOST_LEVELS - 5) + b"\0")
    levels = 0
    while found := found["next"]:
        levels += 1
    assert levels == MOST_LEVELS - 5


def test_a_decimal_of_too_many_bytes_is_not_decoded(reading: Callable[..., Any]) -> None:
    """The time grows with the square of the size, and a megabyte takes minutes."""
    assert reading(DECIMAL, number(2) + b"\x01\x00").as_tuple().digits == (2, 5, 6)
    reading(DECIMAL, number(MOST_DECIMAL_BYTES) + b"\x7f" * MOST_DECIMAL_BYTES)
    with pytest.raises(ValueError, match="a decimal of 1,025 bytes, but the maximum is 1,024"):
        reading(DECIMAL, number(MOST_DECIMAL_BYTES + 1) + b"\x7f" * (MOST_DECIMAL_BYTES + 1))


def test_a_schema_with_too_long_a_decimal_is_refused(reading: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"a fixed 'F' of 1,025 bytes"):
        reading(
            {"type": "fixed", "name": "F", "size": 1025, "logicalType": "decimal", "precision": 9},
            b"\0" * 1025,
        )


def test_as_many_values_as_there_may_be_are_read(reading: Callable[..., Any]) -> None:
    """The record, its field's name and the array are three of the values."""
    most = MOST_VALUES - 3
    held: list[Any] = []
    body = number(most) + b"\x7f" * most + b"\0"
    assert memory_of(lambda: held.append(reading(array("int"), body))) < TO_SPARE
    assert len(held[0]) == most
    with pytest.raises(ValueError, match="more than 400,000 values"):
        reading(array("int"), number(most + 1) + b"\x7f" * (most + 1) + b"\0")


def test_a_number_is_read_as_the_decoder_reads_it(reading: Callable[..., Any]) -> None:
    """In a number of ten bytes, bits above the 64th are ignored. More than ten bytes are an error."""
    assert reading(array("null"), b"\x84" + b"\x80" * 8 + b"\x02" + b"\0") == [None, None]
    with pytest.raises(ValueError, match="a number of more than 10 bytes"):
        reading(array("null"), b"\x84" + b"\x80" * 9 + b"\x02" + b"\0")


def test_references_are_followed_and_schemas_are_found_by_guid(
    stub: RegistryStub, reading: Callable[..., Any]
) -> None:
    stub.schemas = {
        2: {"schema": json.dumps(record(("x", array("null")), name="Other"))},
        1: {
            "schema": json.dumps(record(("a", "Other"), name="Root")),
            "references": [{"name": "Other", "subject": "other", "version": 1}],
        },
    }
    stub.subjects = {"other": [2]}
    assert reading(None, number(2) + b"\0") == {"x": [None, None]}
    with pytest.raises(ValueError, match="more than 400,000 values"):
        reading(None, number(2**40) + b"\0")


# The count is equal to the number of values that the decoder makes.

NAMES = st.just("N")
PRIMITIVES = st.sampled_from(
    ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
)


def records(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda name, kinds: record(*((f"f{at}", kind) for at, kind in enumerate(kinds)), name=name),
        NAMES,
        st.lists(inner, max_size=4),
    )


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    PRIMITIVES
    | st.builds(lambda name: {"type": "enum", "name": name, "symbols": ["a", "b", "c"]}, NAMES)
    | st.builds(
        lambda name, size: {"type": "fixed", "name": name, "size": size}, NAMES, st.integers(0, 5)
    ),
    lambda inner: (
        inner.map(array)
        | inner.map(mapping)
        | records(inner)
        | st.builds(
            lambda kind, other: ["null", kind, other],
            records(inner),
            st.sampled_from(["int", "string"]),
        )
    ),
    max_leaves=8,
)


def named(schema: Any, names: Iterator[int]) -> Any:
    """Gives a name to each schema that needs one."""
    if isinstance(schema, list):
        return [named(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "name" in schema and schema.get("type") in ("record", "enum", "fixed"):
        schema = {**schema, "name": f"N{next(names)}"}
    return {
        key: named(each, names) if key in ("items", "values", "fields", "type") else each
        for key, each in schema.items()
    }


@st.composite
def bodies(draw: st.DrawFn, schema: Any) -> bytes:
    """Draws a value's bytes, encoded by hand in blocks of any size, some with their length."""
    if isinstance(schema, list):
        branch = draw(st.integers(0, len(schema) - 1))
        return number(branch) + draw(bodies(schema[branch]))
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "null":
            return b""
        case "boolean":
            return draw(st.sampled_from([b"\0", b"\x01"]))
        case "int" | "long":
            return number(draw(st.integers(-(2**31), 2**31 - 1)))
        case "float" | "double":
            return bytes(4 if kind == "float" else 8)
        case "bytes" | "string":
            text = draw(st.text(max_size=3)).encode()
            return number(len(text)) + text
        case "enum":
            return number(draw(st.integers(0, 2)))
        case "fixed":
            return bytes(schema["size"])
        case "record":
            return b"".join(draw(bodies(field["type"])) for field in schema["fields"])
    made, key = b"", 0
    for size in draw(st.lists(st.integers(1, 3), max_size=2)):
        block = b""
        for _ in range(size):
            key += 1
            block += (number(3) + b"%03d" % key) if kind == "map" else b""
            block += draw(bodies(schema["values" if kind == "map" else "items"]))
        made += (
            number(-size) + number(len(block)) if draw(st.booleans()) else number(size)
        ) + block
    return made + b"\0"


@given(st.data())
def test_values_are_counted_as_they_are(data: st.DataObject) -> None:
    """The limit of a schema whose records need no walk is correct too."""
    schema = parse_schema(named(data.draw(SCHEMAS), itertools.count()))
    body = data.draw(bodies(schema))
    plan, values = plan_of(schema), counted(schemaless_reader(BytesIO(body), schema, None))
    assert count(plan, HEAD + body, len(HEAD), values) == values
    assert values <= plan.excess + 3 * len(body)
    if values > 1:
        assert len(body) > plan.harmless(values - 1)
        with pytest.raises(ValueError, match="more than"):
            count(plan, body, 0, values - 1)


@given(st.data())
def test_damaged_record_is_refused_or_small(data: st.DataObject) -> None:
    """The decoder rejects a record that passed the check, or makes no more values than counted."""
    schema = parse_schema(named(data.draw(SCHEMAS), itertools.count()))
    body = data.draw(bodies(schema))
    at = data.draw(st.integers(0, len(body)))
    put = data.draw(
        st.binary(max_size=3)
        | st.sampled_from([number(2**60), number(-(2**60)), b"\xff" * 12, b""])
    )
    body = body[:at] + put + body[at + data.draw(st.integers(0, 2)) :]

    def read() -> Any:
        found = schemaless_reader(BytesIO(body), schema, None)
        assert counted(found) <= values

    try:
        values = count(plan_of(schema), body, 0, 10_000)
    except ValueError:
        return
    with suppress(
        UnicodeDecodeError, IndexError
    ):  # not text, or not a symbol of an enum; the check rejects truncated records earlier
        assert memory_of(read) < 10_000_000


@given(st.data())
def test_records_of_fastavro_are_counted(data: st.DataObject) -> None:
    value = data.draw(
        st.lists(st.dictionaries(st.text(max_size=3), st.none() | st.integers(-9, 9), max_size=4))
    )
    schema = parse_schema(array(mapping(["null", "long"])))
    out = BytesIO()
    schemaless_writer(out, schema, value)
    assert count(plan_of(schema), out.getvalue(), 0, MOST_VALUES) == counted(value)
