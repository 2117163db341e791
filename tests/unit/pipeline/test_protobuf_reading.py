"""Decoding of Protobuf messages in executors, without Spark: values, presence, columns, invalid messages."""

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import struct_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from kstorm.formats.protobuf_plan import MOST_PLACES
from kstorm.formats.protobuf_scan import TooLargeError
from kstorm.formats.varint import DamagedError
from kstorm_pipeline import PipelineError
from kstorm_pipeline.protobuf_columns import rows_of
from kstorm_pipeline.protobuf_files import files_of_class, files_of_set, message_names, open_message
from kstorm_pipeline.protobuf_reading import (
    MOST_VALUES,
    UNEXPECTED,
    MessageExtent,
    ProtobufReading,
    read_message,
)
from kstorm_pipeline.protobuf_versions import difference
from tests.pipeline.messages import File
from tests.protobuf_bytes import long, number
from tests.unit.fuzz.extents import memory_of

FIRST = b"\x00"
"""The place of the first message of a schema."""
ALL: dict[tuple[int, ...], str | None] = {(0,): None}


def reading(kind: Any, *, emit_defaults: bool = False) -> ProtobufReading:
    return ProtobufReading(files_of_class(kind), kind.DESCRIPTOR.full_name, emit_defaults)


def row(kind: Any, body: bytes, **options: bool) -> dict[str, Any]:
    """Return the columns of a readable message."""
    reason, values = read_message(reading(kind, **options), ALL, FIRST + body)
    assert reason is None
    columns = rows_of(kind.DESCRIPTOR, emit_defaults=False).columns
    return dict(zip(columns.names, values, strict=True))


def reason(kind: Any, payload: bytes) -> str | None:
    return read_message(reading(kind), ALL, payload)[0]


def numbers(*kinds: str) -> Any:
    return (
        File()
        .message("Numbers", *(f"{kind} f{at} = {at}" for at, kind in enumerate(kinds, 1)))
        .of("Numbers")
    )


def test_numbers_keep_all_their_bits() -> None:
    signed = ("int32", "sint32", "sfixed32", "int64", "sint64", "sfixed64")
    unsigned = ("uint32", "fixed32", "uint64", "fixed64")
    kind = numbers(*signed, *unsigned)
    least = [-(2**31)] * 3 + [-(2**63)] * 3 + [1] * 4
    most = [2**31 - 1] * 3 + [2**63 - 1] * 3 + [2**32 - 1] * 2 + [2**64 - 1] * 2
    for values in (least, most):
        message = kind(**{f"f{at}": value for at, value in enumerate(values, 1)})
        assert list(row(kind, message.SerializeToString()).values()) == values
    types = [
        each.dataType.simpleString()
        for each in rows_of(kind.DESCRIPTOR, emit_defaults=False).columns
    ]
    assert types == ["int"] * 3 + ["bigint"] * 3 + ["bigint"] * 2 + ["decimal(20,0)"] * 2


PRESENCE = (
    File()
    .enum("Way", "LAND", "SEA")
    .message("Inner", "int32 size = 1")
    .message(
        "Order",
        "string plain = 1", "oneof way string mail = 3", "oneof way int32 box = 4", "optional string said = 2",
        ".shop.Inner inner = 5", "repeated string tags = 6", "map<string, int64> counts = 7", ":.shop.Way route = 8",
        ".google.protobuf.UInt64Value wrapped = 9", "bytes raw = 10", "uint64 big = 11", "bool yes = 12", "double real = 13",
        "repeated .google.protobuf.StringValue texts = 14",
    )
)  # fmt: skip
ORDER = PRESENCE.of("Order")
ABSENT = dict.fromkeys(
    ("plain", "said", "mail", "box", "inner", "route", "wrapped", "raw", "big", "yes", "real")
) | {"tags": [], "counts": {}, "texts": []}  # fmt: skip


def test_absent_fields_and_zeros_without_presence_are_null() -> None:
    """Spark's own reader does the same. A zero in a field with presence is zero."""
    assert row(ORDER, b"") == ABSENT
    zero = ORDER(plain="", said="", box=0, inner={}, route=0, wrapped={})
    assert row(ORDER, zero.SerializeToString()) == ABSENT | {
        "said": "",
        "box": 0,
        "inner": (None,),
        "wrapped": Decimal(0),
    }


def test_emit_defaults_replaces_null_in_fields_without_presence() -> None:
    defaults = {
        "plain": "",
        "route": "LAND",
        "raw": b"",
        "big": Decimal(0),
        "yes": False,
        "real": 0.0,
    }
    assert row(ORDER, b"", emit_defaults=True) == ABSENT | defaults


def test_declared_default_is_used() -> None:
    file = File(syntax="proto2").message(
        "Old", "optional int32 size = 1", "optional string text = 2"
    )
    file.proto.message_type[0].field[0].default_value = "7"
    assert row(file.of("Old"), b"") == {"size": 7, "text": None}


def test_values_of_every_kind() -> None:
    order = ORDER(
        plain="Zoë", mail="a", inner={"size": -1}, tags=["x", ""], counts={"a": 0}, route=1, wrapped={"value": 2**64 - 1},
        raw=b"\xff", texts=[{"value": "a"}, {}],
    )  # fmt: skip
    assert row(ORDER, order.SerializeToString()) == ABSENT | {
        "plain": "Zoë", "mail": "a", "inner": (-1,), "tags": ["x", ""], "counts": {"a": 0}, "route": "SEA",
        "wrapped": Decimal(2**64 - 1), "raw": b"\xff", "texts": ["a", ""],
    }  # fmt: skip
    assert row(ORDER, b"\x40\x07")["route"] == "7", (
        "an enum's value that the reader does not know is its number"
    )


TIMED = (
    File()
    .message(
        "Timed", ".google.protobuf.Timestamp at = 1", "repeated .google.protobuf.Timestamp all = 2"
    )
    .of("Timed")
)


def test_time_outside_pythons_range_is_refused() -> None:
    late = datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
    timed = TIMED()
    timed.at.FromDatetime(late)
    assert row(TIMED, timed.SerializeToString())["at"] == late
    for seconds in (253402300800, -62135596801, 2**63 - 1):
        wrong = TIMED(all=[{"seconds": seconds}]).SerializeToString()
        assert reason(TIMED, FIRST + wrong) == "field all has a time outside the years 1 to 9999"


def test_message_that_cannot_be_columns_is_refused() -> None:
    tree = (
        File()
        .message("Tree", "string name = 1", ".shop.Branch branch = 2")
        .message("Branch", "repeated .shop.Tree trees = 1")
        .of("Tree")
    )
    wide = File()
    wide.message("F0", *(f"int32 f{at} = {at}" for at in range(1, 10)))
    for level in range(1, 6):
        wide.message(f"F{level}", *(f".shop.F{level - 1} f{at} = {at}" for at in range(1, 10)))
    deep = File().message("F0", "int32 f = 1")
    for level in range(1, 101):
        deep.message(f"F{level}", f".shop.F{level - 1} f = 1")
    for kind, message in (
        (
            tree,
            r"shop.Tree contains itself \(shop.Tree > shop.Branch > shop.Tree\).* give the records a schema= without that field",
        ),
        (struct_pb2.Struct, "google.protobuf.Struct contains itself"),
        (wide.of("F5"), "more than 5,000 columns"),
        (deep.of("F100"), "more than 100 nested messages"),
        (File().message("Empty").of("Empty"), "no fields that can be columns"),
        (
            File().message("Two", "int32 a = 1", "int32 A = 2").of("Two"),
            "fields 'a' and 'A', which are the same name to Spark",
        ),
    ):
        with pytest.raises(PipelineError, match=message):
            rows_of(kind.DESCRIPTOR, emit_defaults=False)


def test_a_message_without_fields_is_left_out() -> None:
    kind = (
        File()
        .message("Empty")
        .message("Order", "int32 a = 1", ".shop.Empty nothing = 2", "repeated .shop.Empty more = 3")
        .of("Order")
    )
    assert row(kind, kind(a=1, nothing={}, more=[{}]).SerializeToString()) == {"a": 1}


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x02", b"\x01\x00", b"\xff\xff\xff\xff\x0f", b"\x80", b"\x00\x0a\x05a", b"\x00\x0a\x01\xff", b"\x00\x0f", b"\x02\x01"],
    ids=lambda payload: payload.hex() or "nothing",
)  # fmt: skip
def test_undecodable_payload_has_a_reason(payload: bytes) -> None:
    assert reason(ORDER, payload) == UNEXPECTED


def test_invalid_utf8_has_a_reason_in_proto2() -> None:
    kind = (
        File(syntax="proto2")
        .message("Old", "optional string text = 1", "repeated string more = 2")
        .of("Old")
    )
    for wrong in (b"\x0a\x01\xff", b"\x12\x01a\x12\x01\xff"):
        assert reason(kind, FIRST + wrong) == "a string in it is not UTF-8"


def test_message_is_found_by_the_index_in_the_record() -> None:
    file = (
        File()
        .message("Order", "string a = 1")
        .message("Refund", "string b = 1")
        .message("Refund.Line", "string c = 1")
    )
    names = message_names(files_of_class(file.of("Order")))
    assert names == {(0,): "shop.Order", (1,): "shop.Refund", (1, 0): "shop.Refund.Line"}
    line = reading(file.of("Refund.Line"))
    written: dict[tuple[int, ...], str | None] = {(0,): "another", (1,): "another", (1, 0): None}
    for head, expected in (
        (b"\x00", "another"),
        (b"\x02\x02", "another"),
        (b"\x04\x02\x00", None),
        (b"\x02\x04", UNEXPECTED),
    ):
        assert read_message(line, written, head + b"\x0a\x01x")[0] == expected
    assert read_message(line, written, b"\x04\x02\x00\x0a\x01x")[1] == ("x",)


# Versions


@pytest.mark.parametrize(
    ("before", "now", "problem"),
    [
        ("int32 a = 1", "int64 b = 1", None),
        ("uint32 a = 1", "int64 a = 1", None),
        ("bool a = 1", "int32 a = 1", None),
        ("int32 a = 1", "repeated int32 a = 1", None),
        ("string a = 1", "bytes a = 1", None),
        ("string a = 2", "int32 a = 1", None),
        (".shop.In a = 1", ".shop.In a = 1", None),
        (
            "int64 a = 1",
            "int32 a = 1",
            "field 1 (shop.M.a) is int64 in the writer's schema, and int32 in the reader's",
        ),
        ("int32 a = 1", "sint32 a = 1", "is int32 in the writer's schema, and sint32"),
        ("int32 a = 1", "uint64 a = 1", "is int32 in the writer's schema, and uint64"),
        ("string a = 1", "int64 a = 1", "is string in the writer's schema, and int64"),
        (
            "repeated int32 a = 1",
            "int32 a = 1",
            "is repeated int32 in the writer's schema, and int32",
        ),
        (
            "map<string, string> a = 1",
            "repeated .shop.In a = 1",
            "is map in the writer's schema, and repeated message",
        ),
        (
            "map<string, int64> a = 1",
            "map<string, string> a = 1",
            "(shop.M.AEntry.value) is int64 in the writer's schema, and string",
        ),
    ],
)
def test_compatible_field_types(before: str, now: str, problem: str | None) -> None:
    """Types that keep every value are compatible."""
    writer, reader = (
        File().message("In", "int32 x = 1").message("M", field).of("M").DESCRIPTOR
        for field in (before, now)
    )
    found = difference(writer, reader)
    assert (found is None) if problem is None else (problem in (found or ""))


def test_recursive_messages_are_compared() -> None:
    def tree(field: str) -> Any:
        return File().message("Tree", field, "repeated .shop.Tree trees = 2").of("Tree").DESCRIPTOR

    assert difference(tree("int32 a = 1"), tree("int64 a = 1")) is None
    assert difference(tree("string a = 1"), tree("int64 a = 1")) is not None


# Sets


def test_descriptor_set_may_be_in_any_order() -> None:
    street = File(name="post/street.proto", package="post").message("Street", "string name = 1")
    order = File(street).message("Order", ".post.Street to = 1")
    found = open_message(
        files_of_set(FileDescriptorSet(file=[street.proto, order.proto]).SerializeToString()),
        "shop.Order",
    )
    assert [field.name for field in found.fields] == ["to"]
    with pytest.raises(PipelineError, match=r"imports 'post/street\.proto', which is missing"):
        files_of_set(FileDescriptorSet(file=[order.proto]).SerializeToString())
    for data in (b"", b"\xff", b"syntax"):
        with pytest.raises(PipelineError, match="is not a descriptor set: make one with protoc"):
            files_of_set(data)
    with pytest.raises(PipelineError, match=r"no message 'shop.Other': correct message="):
        open_message(files_of_class(order.of("Order")), "shop.Other")


def test_inconsistent_files_are_refused() -> None:
    one = File(name="a.proto")
    one.proto.dependency.append("b.proto")
    two = File(one, name="b.proto")
    with pytest.raises(PipelineError, match=r"import each other: b.proto"):
        files_of_set(FileDescriptorSet(file=[one.proto, two.proto]).SerializeToString())
    wrong = File().message("Order", ".shop.Missing to = 1")
    with pytest.raises(PipelineError, match=r"is inconsistent: .*Missing"):
        open_message(
            files_of_set(FileDescriptorSet(file=[wrong.proto]).SerializeToString()), "shop.Order"
        )


# Large memory use


def bombs() -> Any:
    file = File(syntax="proto2").message(
        "Wide", *(f"optional string f{at} = {at}" for at in range(1, 501))
    )
    file.message("Small", "repeated int32 loose = 1", "repeated .shop.Wide wides = 2")
    file.message(
        "Bomb", "repeated .shop.Wide wides = 1", "repeated int32 loose = 2", "repeated fixed64 eights = 3",
        "repeated string texts = 4", "map<int32, .shop.Small> named = 5",
        "optional .shop.Small one = 6", "optional .shop.Group group = 7",
        "repeated float fours = 8",
    )  # fmt: skip
    file.message("Group", "repeated .shop.Wide wides = 1")
    file.proto.message_type[2].field[6].type = 10  # a group
    return file.of("Bomb")


BOMB = bombs()
TOO_MUCH = {
    "values": "it has more than 400,000 values, including nested ones",
    "fields": "its messages have more than 4,000,000 fields, including unset ones",
}
BOMBS: dict[str, tuple[str, bytes]] = {
    "wide messages": ("fields", b"\x0a\0" * 100_000),
    "numbers": ("values", b"\x10\x01" * 500_000),
    "numbers side by side": ("values", long(2, b"\x01" * 500_000)),
    "of eight bytes": ("values", long(3, bytes(8) * 500_000)),
    "of four bytes": ("values", long(8, bytes(4) * 500_000)),
    "texts": ("values", b"\x22\0" * 500_000),
    "a map": ("values", b"".join(long(5, b"\x08" + number(at)) for at in range(200_001))),
    "in a map": ("fields", long(5, long(2, long(2, b"") * 50_000))),
    "one that is there again and again": ("values", b"\x32\0" * 500_000),
    "in a group": ("fields", b"\x3b" + b"\x0a\0" * 100_000 + b"\x3c"),
    "behind what is not known": (
        "values",
        b"\x9b\x06\x0b\x08\x01\x0c\x9c\x06" + b"\x10\x01" * 500_000,
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_too_large_message_is_refused_before_decoding(name: str) -> None:
    what, body = BOMBS[name]
    payload = FIRST + body
    found: list[str | None] = []
    assert memory_of(lambda: found.append(reason(BOMB, payload))) < 20_000_000
    assert found == [TOO_MUCH[what]]


def test_largest_allowed_messages_are_read() -> None:
    assert row(BOMB, long(2, b"\x01" * (MOST_VALUES - 1)))["loose"] == [1] * (MOST_VALUES - 1)
    wides = row(BOMB, b"\x0a\0" * (MOST_PLACES // 500 - 1))["wides"]
    assert len(wides) == MOST_PLACES // 500 - 1


@pytest.mark.parametrize(
    "tail",
    [
        b"\x13" * 200,
        b"\x0b",
        b"\x0c",
        b"\x0f",
        b"\x0a\x05",
        b"\x09" + bytes(7),
        b"\x08\x80",
        b"\x08" + b"\xff" * 11,
        b"\x3b\x0c",
        b"\x9b\x06\xa4\x06",
    ],
    ids=lambda tail: tail[:4].hex(),
)
def test_long_damaged_message_is_refused_before_decoding(tail: bytes) -> None:
    body = long(4, bytes(MOST_VALUES)) + tail
    with pytest.raises(DamagedError):
        MessageExtent(BOMB.DESCRIPTOR).check(body)
    with pytest.raises(DecodeError):
        BOMB.FromString(body)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    message = BOMB(
        loose=draw(st.lists(st.integers(-9, 9), max_size=3)),
        texts=draw(st.lists(st.text(max_size=2), max_size=3)),
    )
    for key in draw(st.lists(st.integers(-3, 3), max_size=3)):
        message.named[key].wides.add().f7 = "x"
    if draw(st.booleans()):
        message.group.wides.add()
    body = bytes(message.SerializeToString())
    at = draw(st.integers(0, len(body)))
    return (
        body[:at]
        + draw(st.binary(max_size=3) | st.sampled_from([b"\x13\x14", b"\x3b\x3c", number(2**60)]))
        + body[at:]
    )


@given(bodies())
def test_random_bytes_never_raise_and_valid_messages_pass(body: bytes) -> None:
    read_message(reading(BOMB), ALL, body)
    extent = MessageExtent(BOMB.DESCRIPTOR)
    extent._harmless = -1
    with suppress(DecodeError):
        BOMB.FromString(body)
        with suppress(TooLargeError):
            extent.check(body)
