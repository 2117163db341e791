"""Protobuf of a schema registry: data that decodes too large is refused early.

Valid data is accepted.
"""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, struct_pb2
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from kstorm.errors import NotYetError
from kstorm.formats.protobuf_plan import MOST_PLACES, MessageTypes
from kstorm.formats.protobuf_scan import count
from kstorm.kafka.message_limits import MOST_VALUES
from kstorm.registry import ProtobufScheme, SchemaRegistry
from kstorm.registry.protobuf_values import ProtobufValueLimit
from tests.protobuf_bytes import long, number
from tests.registry_stub import RegistryStub
from tests.unit.fuzz.extents import TO_SPARE, counted, memory_of

HEAD: Final = b"\x00\x00\x00\x00\x01\x00"
SCHEMA: Final = base64.b64encode(
    descriptor_pb2.FileDescriptorProto(
        name="any.proto", syntax="proto3", message_type=[descriptor_pb2.DescriptorProto(name="Any")]
    ).SerializeToString()
).decode()
"""The writer's schema in the registry. The reader uses its own class."""
WIDE: Final = 500
"""The number of fields of a type that is always absent."""
FIELD: Final = descriptor_pb2.FieldDescriptorProto
ONE, MANY = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED


def classes() -> tuple[Any, Any]:
    """Return the proto2 classes Tree and Open, in the pool where `Any` looks up types.

    Tree { int64 number; repeated Tree trees; repeated int32 packed [packed]; repeated fixed64 wide [packed]; repeated string texts;
    map<string, Tree> named; map<int32, bool> flags; group Leaf; repeated group Leaves; Tree one; repeated Wide wides;
    repeated int32 loose; float real; }
    Open { repeated Any anys; Open one; extensions; } with repeated Tree more = 100 added to it.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="fuzz/tree.proto", package="fuzz", syntax="proto2"
    )
    file.dependency.append("google/protobuf/any.proto")
    tree = file.message_type.add(name="Tree")
    tree.field.add(name="number", number=1, type=FIELD.TYPE_INT64, label=ONE)
    tree.field.add(
        name="trees", number=2, type=FIELD.TYPE_MESSAGE, type_name=".fuzz.Tree", label=MANY
    )
    for name, at, kind in (("packed", 3, FIELD.TYPE_INT32), ("wide", 4, FIELD.TYPE_FIXED64)):
        tree.field.add(name=name, number=at, type=kind, label=MANY).options.packed = True
    tree.field.add(name="texts", number=5, type=FIELD.TYPE_STRING, label=MANY)
    for name, at, key, kind in (
        ("named", 6, FIELD.TYPE_STRING, FIELD.TYPE_MESSAGE),
        ("flags", 7, FIELD.TYPE_INT32, FIELD.TYPE_BOOL),
    ):
        entry = tree.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=ONE)
        value = entry.field.add(name="value", number=2, type=kind, label=ONE)
        if kind == FIELD.TYPE_MESSAGE:
            value.type_name = ".fuzz.Tree"
        tree.field.add(
            name=name,
            number=at,
            type=FIELD.TYPE_MESSAGE,
            type_name=f".fuzz.Tree.{entry.name}",
            label=MANY,
        )
    for name, at, label in (("Leaf", 8, ONE), ("Leaves", 9, MANY)):
        group = tree.nested_type.add(name=name)
        group.field.add(name="text", number=1, type=FIELD.TYPE_STRING, label=ONE)
        group.field.add(
            name="trees", number=2, type=FIELD.TYPE_MESSAGE, type_name=".fuzz.Tree", label=MANY
        )
        tree.field.add(
            name=name.lower(),
            number=at,
            type=FIELD.TYPE_GROUP,
            type_name=f".fuzz.Tree.{name}",
            label=label,
        )
    tree.field.add(
        name="one", number=10, type=FIELD.TYPE_MESSAGE, type_name=".fuzz.Tree", label=ONE
    )
    tree.field.add(
        name="wides", number=11, type=FIELD.TYPE_MESSAGE, type_name=".fuzz.Wide", label=MANY
    )
    tree.field.add(name="loose", number=12, type=FIELD.TYPE_INT32, label=MANY)
    tree.field.add(name="real", number=13, type=FIELD.TYPE_FLOAT, label=ONE)
    wide = file.message_type.add(name="Wide")
    for at in range(1, WIDE + 1):
        wide.field.add(name=f"f{at}", number=at, type=FIELD.TYPE_STRING, label=ONE)
    opened = file.message_type.add(name="Open")
    opened.field.add(
        name="anys", number=1, type=FIELD.TYPE_MESSAGE, type_name=".google.protobuf.Any", label=MANY
    )
    opened.field.add(
        name="one", number=2, type=FIELD.TYPE_MESSAGE, type_name=".fuzz.Open", label=ONE
    )
    opened.field.add(
        name="any", number=3, type=FIELD.TYPE_MESSAGE, type_name=".google.protobuf.Any", label=ONE
    )
    opened.extension_range.add(start=100, end=200)
    file.extension.add(
        name="more",
        number=100,
        type=FIELD.TYPE_MESSAGE,
        type_name=".fuzz.Tree",
        label=MANY,
        extendee=".fuzz.Open",
    )
    pool = descriptor_pool.Default()
    pool.Add(file)
    return tuple(
        GetMessageClass(pool.FindMessageTypeByName(f"fuzz.{name}")) for name in ("Tree", "Open")
    )


TREE, OPEN = classes()
TREES = MessageTypes(TREE.DESCRIPTOR)
OPENS = MessageTypes(OPEN.DESCRIPTOR)


def any_of(url: str, value: bytes) -> bytes:
    return long(1, url.encode()) + long(2, value)


ENTRIES = b"".join(long(6, long(1, b"%06d" % at)) for at in range(200_000))
BOMBS: dict[str, tuple[Any, str, bytes]] = {
    "empty messages": (TREE, "trees", b"\x12\0" * 4_000_000),
    "messages within messages": (TREE, "trees", long(2, b"\x12\0" * 1000) * 500),
    "wide messages": (TREE, "wides", b"\x5a\0" * 200_000),
    "side by side": (TREE, "packed", long(3, b"\x01" * 1_000_000)),
    "side by side, of eight bytes": (TREE, "wide", long(4, bytes(8) * 500_000)),
    "numbers": (TREE, "loose", b"\x60\x01" * 1_000_000),
    "side by side, declared otherwise": (TREE, "loose", long(12, b"\x01" * 1_000_000)),
    "texts": (TREE, "texts", b"\x2a\0" * 1_000_000),
    "a map": (TREE, "named", ENTRIES),
    "a map's messages": (TREE, "named", long(6, long(2, b"\x12\0" * 500_000))),
    "groups": (TREE, "leaves", b"\x4b\x4c" * 500_000),
    "in a group": (TREE, "leaf", b"\x43" + b"\x12\0" * 500_000 + b"\x44"),
    "one that is there again and again": (TREE, "one", b"\x52\0" * 500_000),
    "an extension": (OPEN, "anys", (number(100 << 3 | 2) + b"\0") * 500_000),
    "an Any": (OPEN, "anys", long(1, any_of("x/fuzz.Tree", b"\x12\0" * 500_000))),
    "an Any within an Any": (
        OPEN,
        "anys",
        long(1, any_of("x/fuzz.Open", long(1, any_of("x/fuzz.Tree", b"\x12\0" * 500_000)))),
    ),
}


@pytest.fixture
def reading() -> Iterator[Callable[..., Any]]:
    """Return a function that decodes a field of a class with a scheme, without the header."""
    opened: dict[str, ProtobufScheme] = {}
    with RegistryStub() as stub:
        stub.schemas[1] = {"schema": SCHEMA, "schemaType": "PROTOBUF"}

        def read(kind: Any, field: str, body: bytes, **settings: Any) -> Any:
            if field not in opened:
                opened[field] = ProtobufScheme(SchemaRegistry(stub.url), kind, field, **settings)
                opened[field].open()
            deadline = time.monotonic() + 20
            while True:
                try:
                    return next(iter(opened[field].deserialize(HEAD + body)))
                except NotYetError:
                    assert time.monotonic() < deadline
                    time.sleep(0.002)

        yield read
        for scheme in opened.values():
            scheme.close()


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_refused_cheaply(name: str, reading: Callable[..., Any]) -> None:
    kind, field, body = BOMBS[name]

    def read() -> None:
        with pytest.raises(
            ValueError, match=r"more than (4,000,000 fields, including unset ones|400,000 values)"
        ):
            reading(kind, field, body)

    began = time.process_time()
    assert memory_of(read) < 20_000_000
    assert time.process_time() - began < 10


@pytest.mark.parametrize("name", BOMBS)
def test_value_limit_is_a_setting_of_the_scheme(name: str, reading: Callable[..., Any]) -> None:
    kind, field, body = BOMBS[name]
    with pytest.raises(ValueError, match="more than 10 values"):
        reading(kind, field, body, most_values=10)


def test_as_many_values_as_there_may_be_are_read(reading: Callable[..., Any]) -> None:
    held: list[Any] = []
    most = MOST_VALUES - 3
    assert (
        memory_of(lambda: held.append(reading(TREE, "trees", b"\x12\0" * (most // 8)))) < TO_SPARE
    )
    assert (
        memory_of(lambda: held.append(reading(TREE, "packed", long(3, b"\x01" * most)))) < TO_SPARE
    )
    assert [len(each) for each in held] == [most // 8, most]
    with pytest.raises(ValueError, match="more than 400,000 values"):
        reading(TREE, "packed", long(3, b"\x01" * (most + 1)))


def test_as_many_places_as_there_may_be_are_read(reading: Callable[..., Any]) -> None:
    held: list[Any] = []
    wides = MOST_PLACES // WIDE - 1
    assert memory_of(lambda: held.append(reading(TREE, "wides", b"\x5a\0" * wides))) < TO_SPARE
    assert len(held[0]) == wides


@pytest.mark.parametrize(
    "body",
    [
        b"\x1a\x0d"
        + any_of("x/fuzz.Tree", b"")
        + long(3, any_of("x/google.protobuf.Struct", b"\x12\0" * 9)),
        long(2, long(3, any_of("x/google.protobuf.Struct", b"\x12\0" * 9)))
        + long(2, long(3, long(1, b"x/fuzz.Tree"))),
    ],
)
def test_an_any_in_two_parts_is_refused(body: bytes, reading: Callable[..., Any]) -> None:
    """The decoder merges them, and takes the type of one and the content of the other."""
    with pytest.raises(ValueError, match="in two parts"):
        reading(OPEN, "one", body)


def test_any_of_an_unknown_type_is_not_unpacked(reading: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"Can not find message descriptor by type_url"):
        reading(OPEN, "anys", long(1, any_of("x/fuzz.Unknown", b"\x12\0" * 500_000)))


@pytest.mark.parametrize("body", [b"\x13" * 1000, b"\x9b\x06" * 1000, b"\x43" * 1000], ids=str)
def test_groups_without_end_are_refused(body: bytes, reading: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"levels deep|ends too early"):
        reading(TREE, "one", body, most_values=10)


@pytest.mark.parametrize(
    "body",
    [
        b"\x12\x05",
        b"\x12\x02\x12\x01",
        b"\x09" + bytes(7),
        b"\x0d" + bytes(3),
        b"\x08\x80",
        b"\x43\x4c",
        b"\x44",
        b"\x0f",
        b"\x43",
    ],
    ids=lambda body: body.hex(),
)
def test_invalid_message_is_refused(body: bytes) -> None:
    """The message is truncated, too long for its container, or has a wrong tag or kind."""
    with pytest.raises(DecodeError):
        TREE().ParseFromString(body)
    with pytest.raises(ValueError, match="ends too early, or is not a Protobuf message"):
        count(TREES, body, 0, MOST_VALUES)


def test_message_without_its_schema_is_not_walked() -> None:
    """Each attempt raises `NotYetError` quickly, and no message is given up."""
    scheme = ProtobufScheme(SchemaRegistry("http://127.0.0.1:1"), TREE, "trees")
    scheme.open()
    try:
        began = time.process_time()
        for _ in range(20):
            with pytest.raises(NotYetError):
                scheme.deserialize(HEAD + BOMBS["empty messages"][2])
        assert time.process_time() - began < 3
    finally:
        scheme.close()


def test_short_message_is_not_walked() -> None:
    """A message with possibly unknown types is walked."""
    client: Any = None  # a walk would first request the schema from the client, and fail
    ProtobufValueLimit(client, struct_pb2.Struct, MOST_VALUES).check(HEAD + bytes(150_000))
    for kind, length in ((struct_pb2.Struct, 250_000), (TREE, 20_000), (OPEN, 20)):
        with pytest.raises(AttributeError):
            ProtobufValueLimit(client, kind, MOST_VALUES).check(HEAD + bytes(length))


# The count is equal to the number of values that the decoder makes.


@st.composite
def trees(draw: st.DrawFn, levels: int = 2) -> Any:
    tree = TREE()
    small = st.integers(0, 2)
    if draw(st.booleans()):
        tree.number = draw(st.integers(-(2**63), 2**63 - 1))
    tree.packed.extend(draw(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3)))
    tree.wide.extend(draw(st.lists(st.integers(0, 2**64 - 1), max_size=3)))
    tree.loose.extend(draw(st.lists(st.integers(-3, 300), max_size=3)))
    tree.texts.extend(draw(st.lists(st.text(max_size=3), max_size=3)))
    for key in draw(st.lists(st.integers(-9, 9), max_size=3)):
        tree.flags[key] = draw(st.booleans())
    if draw(st.booleans()):
        tree.real = draw(st.floats(width=32))
    for _ in range(draw(small)):
        tree.wides.add().f77 = draw(st.text(max_size=2))
    if levels:
        for each in range(draw(small)):
            tree.trees.append(draw(trees(levels - 1)))
            tree.named[f"{each}"].CopyFrom(draw(trees(levels - 1)))
            tree.leaves.add().trees.append(draw(trees(levels - 1)))
        if draw(st.booleans()):
            tree.one.CopyFrom(draw(trees(levels - 1)))
            tree.leaf.text = draw(st.text(max_size=2))
    return tree


def as_dict(message: Any) -> dict[str, Any]:
    made: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return made


@given(trees())
def test_values_are_counted_as_they_are(tree: Any) -> None:
    data = tree.SerializeToString()
    values = counted(as_dict(tree))
    assert count(TREES, HEAD + data, len(HEAD), values) == values
    assert values <= 1 + 2 * len(data)
    if values > 1:
        with pytest.raises(ValueError, match="more than"):
            count(TREES, data, 0, values - 1)


@given(trees(1))
def test_contents_of_an_any_are_counted(tree: Any) -> None:
    """The count is not below the number of decoded values."""
    holder = OPEN()
    holder.anys.add().Pack(tree)
    holder.any.Pack(any_pb2.Any(type_url="x/fuzz.Tree", value=tree.SerializeToString()))
    holder.Extensions[descriptor_pool.Default().FindExtensionByName("fuzz.more")].append(tree)
    values = counted(as_dict(holder))
    assert values <= count(OPENS, holder.SerializeToString(), 0, MOST_VALUES) <= values + 12
    with pytest.raises(ValueError, match="more than"):
        count(OPENS, holder.SerializeToString(), 0, values - 1)


@given(st.data())
def test_damaged_message_is_refused_or_small(data: st.DataObject) -> None:
    """The decoder rejects a message that passed the check, or makes no more values than counted."""
    body = data.draw(trees()).SerializeToString()
    at = data.draw(st.integers(0, len(body)))
    put = data.draw(
        st.binary(max_size=3)
        | st.sampled_from([b"\xff" * 12, b"\x13\x14", b"\x52\0\x52\0", number(2**60)])
    )
    body = body[:at] + put + body[at + data.draw(st.integers(0, 2)) :]

    def read() -> None:
        tree = TREE()
        tree.ParseFromString(body)
        assert counted(as_dict(tree)) <= values

    try:
        values = count(TREES, body, 0, 10_000)
    except ValueError:
        return
    with suppress(DecodeError):
        assert memory_of(read) < 10_000_000
