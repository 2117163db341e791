"""Schemes and serializers of a schema registry, against a stub of its protocol (`tests.registry_stub`)."""

import copy
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import pytest
from confluent_kafka import Message
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass

from kstorm.dev.free_ports import reserve_port
from kstorm.errors import ConfigError, NotYetError
from kstorm.kafka import KafkaHosts, MultiScheme, SchemeAsMultiScheme, SpoutConfig
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.ports import Partition, SourceMessage
from kstorm.kafka.serializer import Serializer
from kstorm.registry import (
    AvroScheme,
    AvroSerializer,
    JsonSchemaScheme,
    JsonSchemaSerializer,
    ProtobufScheme,
    ProtobufSerializer,
    SchemaRegistry,
)
from kstorm.topology import Fields
from tests.registry_stub import RegistryStub
from tests.unit.kafka.conftest import FakeCollector
from tests.unit.kafka.one_by_one import emit_next

T = TypeVar("T")

AVRO = json.dumps(
    {
        "type": "record",
        "name": "WordCount",
        "fields": [{"name": "word", "type": "string"}, {"name": "count", "type": "long"}],
    }
)
JSON = json.dumps(
    {
        "title": "WordCount",
        "type": "object",
        "properties": {"word": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["word"],
    }
)
ENTRY = {"word": "cow", "count": 3}


def word_count() -> Any:
    """Builds the class that protoc would generate for WordCount.

    message WordCount { string word = 1; int64 count = 2; repeated string tags = 3; }
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="word_count.proto", package="words", syntax="proto3"
    )
    message = file.message_type.add(name="WordCount")
    kinds = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="word", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    message.field.add(name="count", number=2, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    message.field.add(name="tags", number=3, type=kinds.TYPE_STRING, label=kinds.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("words.WordCount"))


PROTO = word_count()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstorm.registry.client._PAUSE_SECS", 0.01)


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with RegistryStub() as running:
        yield running


@pytest.fixture
def opened() -> Iterator[Callable[[Any], Any]]:
    """Provide a function that opens a copy of a scheme or serializer, as a task does."""
    running: list[Any] = []

    def open_copy(template: Any) -> Any:
        own = copy.deepcopy(template)
        running.append(own)
        own.open(*([] if hasattr(own, "deserialize") else [False]))
        return own

    yield open_copy
    for each in running:
        each.close()


def at_last(call: Callable[[], T]) -> T:
    """Returns the result of a call once it no longer raises `NotYetError`."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return call()
        except NotYetError:
            assert time.monotonic() < deadline
            time.sleep(0.002)


def kinds(url: str) -> dict[str, tuple[Any, Any]]:
    """Returns a scheme and a serializer of each kind."""
    registry = SchemaRegistry(url)
    return {
        "avro": (AvroScheme(registry, "count", "word"), AvroSerializer(registry, AVRO)),
        "json": (JsonSchemaScheme(registry, "count", "word"), JsonSchemaSerializer(registry, JSON)),
        "protobuf": (
            ProtobufScheme(registry, PROTO, "count", "word"),
            ProtobufSerializer(registry, PROTO),
        ),
    }


@pytest.fixture(params=["avro", "json", "protobuf"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_scheme_reads_records_of_its_serializer(stub: RegistryStub, opened: Any, kind: str) -> None:
    """The schema is registered once under the topic's subject. Its id precedes the bytes.

    The fields are in order.
    """
    scheme, serializer = map(opened, kinds(stub.url)[kind])
    written = at_last(lambda: serializer.serialize("counts", ENTRY))
    assert written[:5] == b"\x00\x00\x00\x00\x01"
    assert list(stub.subjects) == ["counts-value"]
    assert serializer.serialize("counts", None) is None
    assert scheme.output_fields == Fields("count", "word")
    assert list(at_last(lambda: scheme.deserialize(written))) == [3, "cow"]
    asked = len(stub.requests)
    assert serializer.serialize("counts", {**ENTRY, "count": 4}) != written
    assert list(scheme.deserialize(written)) == [3, "cow"]
    assert len(stub.requests) == asked


def test_registry_outage_loses_no_message(opened: Any, kind: str) -> None:
    """Reading and writing raise `NotYetError` with the reason and without the login.

    They continue when the registry is up.
    """
    port = reserve_port()
    scheme, serializer = map(opened, kinds(f"http://user:secret@127.0.0.1:{port}")[kind])
    for call in (
        lambda: scheme.deserialize(b"\x00\x00\x00\x00\x01\x00\x06cow\x06"),
        lambda: serializer.serialize("t", ENTRY),
    ):
        said = reasons_of(call, "did not return")
        assert f"http://127.0.0.1:{port} did not return" in said
        assert "secret" not in said
    with RegistryStub(port):
        written = at_last(lambda: serializer.serialize("t", ENTRY))
        assert list(at_last(lambda: scheme.deserialize(written))) == [3, "cow"]


def reasons_of(call: Callable[[], Any], wanted: str) -> str:
    """Waits until the reason of `NotYetError` has these words, and returns it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with pytest.raises(NotYetError) as error:
            call()
        if wanted in str(error.value):
            return str(error.value)
        time.sleep(0.002)
    raise AssertionError(f"never {wanted!r}")


@pytest.mark.parametrize("status", [200, 401, 404, 500, 503])
def test_response_of_another_server_is_retried(
    stub: RegistryStub, opened: Any, status: int
) -> None:
    """The server may be a proxy with its own page. No message is given up for it."""
    scheme, serializer = map(opened, kinds(stub.url)["avro"])
    written = at_last(lambda: serializer.serialize("counts", ENTRY))
    stub.answers = status
    assert "did not return schema 1" in reasons_of(
        lambda: scheme.deserialize(written), "did not return"
    )
    stub.answers = None
    assert list(at_last(lambda: scheme.deserialize(written))) == [3, "cow"]


def test_a_schema_that_the_registry_does_not_know_makes_a_message_unreadable(
    stub: RegistryStub, opened: Any, kind: str
) -> None:
    scheme, _ = kinds(stub.url)[kind]
    reading = opened(scheme)
    with pytest.raises(ValueError, match="refused to return schema 77: Schema 77 not found"):
        at_last(lambda: reading.deserialize(b"\x00\x00\x00\x00\x4d\x00\x06cow\x06"))


def test_bytes_without_a_schema_id_are_refused(stub: RegistryStub, opened: Any, kind: str) -> None:
    """The registry gets no request."""
    scheme = opened(kinds(stub.url)[kind][0])
    for value in (b"", b"\x00\x01", b"plain text", b'{"word": "a", "count": 1}'):
        with pytest.raises(Exception) as error:  # noqa: PT011 - each library has its own
            scheme.deserialize(value)
        assert not isinstance(error.value, NotYetError)
    assert stub.requests == []


def test_bytes_that_do_not_fit_their_schema_are_refused(
    stub: RegistryStub, opened: Any, kind: str
) -> None:
    """The schema is known, so the message is refused at once."""
    scheme, serializer = map(opened, kinds(stub.url)[kind])
    written = at_last(lambda: serializer.serialize("counts", ENTRY))
    with pytest.raises(Exception) as error:  # noqa: PT011 - each library has its own
        at_last(lambda: scheme.deserialize(written[:6] + b"\xff" * 12))
    assert not isinstance(error.value, NotYetError)


def test_json_without_a_number_is_refused(stub: RegistryStub, opened: Any) -> None:
    """confluent-kafka writes NaN, which no JSON reader accepts, or null."""
    writing = opened(JsonSchemaSerializer(SchemaRegistry(stub.url), JSON))
    with pytest.raises(ValueError, match=r"the value at \['count'\] is nan"):
        writing.serialize("counts", {"word": "cow", "count": float("nan")})


def test_a_record_without_a_named_field_is_refused(stub: RegistryStub, opened: Any) -> None:
    """The error lists the known fields. For a Protobuf class, it comes at the start."""
    registry = SchemaRegistry(stub.url)
    writing = opened(JsonSchemaSerializer(registry, JSON))
    written = at_last(lambda: writing.serialize("t", {"word": "cow"}))
    scheme = opened(JsonSchemaScheme(registry, "word", "count"))
    with pytest.raises(ValueError, match="no member 'count', only 'word'"):
        at_last(lambda: scheme.deserialize(written))
    with pytest.raises(
        ConfigError, match=r"words\.WordCount has no field 'size', only word, count, tags"
    ):
        ProtobufScheme(registry, PROTO, "word", "size")


def test_reader_schema_adds_defaults(stub: RegistryStub, opened: Any) -> None:
    """confluent-kafka implements Avro's resolution."""
    registry = SchemaRegistry(stub.url)
    writing = opened(AvroSerializer(registry, AVRO))
    written = at_last(lambda: writing.serialize("t", ENTRY))
    newer = json.loads(AVRO)
    newer["fields"].append({"name": "language", "type": "string", "default": "en"})
    scheme = opened(AvroScheme(registry, "word", "language", schema=json.dumps(newer)))
    assert list(at_last(lambda: scheme.deserialize(written))) == ["cow", "en"]


def test_a_schema_may_refer_to_another(stub: RegistryStub, opened: Any) -> None:
    """Each schema is requested in turn, and no call blocks."""
    stub.schemas = {
        1: {
            "schema": '{"type": "record", "name": "Word", "fields": [{"name": "text", "type": "string"}]}'
        },
        2: {
            "schema": '{"type": "record", "name": "Count", "fields": [{"name": "word", "type": "Word"}]}',
            "references": [{"name": "Word", "subject": "word", "version": 1}],
        },
    }
    stub.subjects = {"word": [1]}
    scheme = opened(AvroScheme(SchemaRegistry(stub.url), "word"))
    assert list(at_last(lambda: scheme.deserialize(b"\x00\x00\x00\x00\x02\x06cow"))) == [
        {"text": "cow"}
    ]


def test_a_refused_schema_fails_the_tuple(stub: RegistryStub, opened: Any) -> None:
    """An incompatible schema stays incompatible, so retries are pointless."""
    serializer = opened(AvroSerializer(SchemaRegistry(stub.url), AVRO))
    with pytest.raises(
        ValueError,
        match="refused to return the id of 'refused-value': Schema being registered is incompatible",
    ):
        at_last(lambda: serializer.serialize("refused", ENTRY))


def test_hanging_registry_does_not_block(opened: Any, kind: str) -> None:
    """The registry accepts connections and never responds. Each call returns at once."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        registry = SchemaRegistry(f"http://127.0.0.1:{silent.getsockname()[1]}", {"timeout": 20})
        scheme = {
            "avro": AvroScheme(registry, "word"),
            "json": JsonSchemaScheme(registry, "word"),
            "protobuf": ProtobufScheme(registry, PROTO, "word"),
        }[kind]
        reading = opened(scheme)
        began = time.monotonic()
        for _ in range(20):
            with pytest.raises(NotYetError, match="has not yet returned schema 1"):
                reading.deserialize(b"\x00\x00\x00\x00\x01\x00\x06cow\x06")
        assert time.monotonic() - began < 10  # half of the time that one blocking call would take


def test_an_outage_puts_nothing_into_the_dead_letters(stub: RegistryStub, opened: Any) -> None:
    """Messages wait in the partition. Later, the unreadable ones become dead letters."""
    scheme, serializer = kinds(stub.url)["avro"]
    writing = opened(serializer)
    written = at_last(lambda: writing.serialize("t", ENTRY))
    collector, reading = FakeCollector(), opened(scheme)
    config = SpoutConfig(
        KafkaHosts(), "t", "", "s", scheme=cast("MultiScheme", SchemeAsMultiScheme(reading))
    )
    manager = PartitionManager(Partition("t", 0), config, collector, offset=0)
    values = [written, b"\x00\x00\x00\x00\x4d\x06cow\x06", written, b"?"]
    manager.fill(
        cast("SourceMessage", Message("t", 0, at, None, value)) for at, value in enumerate(values)
    )
    stub.answers = 503
    deadline = time.monotonic() + 20
    while "503" not in str(manager.not_yet):
        emit_next(manager, collector)
        assert time.monotonic() < deadline
    assert (collector.letters, collector.emitted, manager.last_completed_offset) == ([], [], 0)
    stub.answers = None
    while len(collector.letters) < 2:
        emit_next(manager, collector)
        assert time.monotonic() < deadline
    assert [id.offset for _, id, _ in collector.emitted] == [0, 2]
    assert [letter.offset for letter in collector.letters] == [1, 3]


@pytest.mark.parametrize("module", ["avro", "json_schema", "protobuf"])
def test_missing_libraries_name_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes when a task opens it. Services that do not use it can load the topology."""
    monkeypatch.setitem(sys.modules, f"confluent_kafka.schema_registry.{module}", None)
    scheme, serializer = kinds("http://localhost:1")[module.removesuffix("_schema")]
    for open_it in (scheme.open, lambda: serializer.open(is_key=False)):
        with pytest.raises(ConfigError, match=r"is missing: install kstorm\[registry\]"):
            open_it()


def test_wrong_settings_are_named(stub: RegistryStub) -> None:
    """The error is one line without a password."""
    with pytest.raises(
        ConfigError, match="the schema registry's address is 'host:8081': give http://host:port"
    ):
        SchemaRegistry("user:secret@host:8081")
    assert "secret" not in repr(
        SchemaRegistry("http://user:secret@host:8081", {"basic.auth.user.info": "a:secret"})
    )
    with pytest.raises(ConfigError, match="AvroScheme has no fields"):
        AvroScheme(SchemaRegistry(stub.url))
    with pytest.raises(ConfigError, match=r"properties of the schema registry at \S+: .*no\.such"):
        AvroScheme(SchemaRegistry(stub.url, {"no.such": 1}), "word").open()
    serializer: Serializer = AvroSerializer(SchemaRegistry(stub.url), '{"type": "none"}')
    with pytest.raises(ConfigError, match="AvroSerializer cannot use its schema or properties"):
        serializer.open(is_key=False)  # type: ignore[attr-defined]
    for scheme, schema in ((AvroScheme, '{"type": "none"}'), (JsonSchemaScheme, "no JSON")):
        with pytest.raises(ConfigError, match=f"{scheme.__name__} cannot use its reader schema"):
            scheme(SchemaRegistry(stub.url), "word", schema=schema).open()
