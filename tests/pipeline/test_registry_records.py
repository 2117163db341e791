"""Records of a schema registry in a run: new versions, unreadable records, registry outages."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kstorm.dev.free_ports import reserve_port
from kstorm_pipeline import Pipeline, PipelineError, avro_records, json_schema_records
from kstorm_pipeline.errors import SettingsError
from kstorm_pipeline.registry import Registry
from kstorm_pipeline.row_reading import read_rows
from kstorm_pipeline.run import run
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.pipeline.breaking import break_off_after
from tests.pipeline.registered import Writer, begun, read
from tests.pipeline.topic import Topic, bronze
from tests.registry_stub import RegistryStub

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

WORD = {"name": "word", "type": "string"}
SIZE = {"name": "size", "type": "long", "default": -1}
JSON = json.dumps(
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
)


def avro(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Word", "fields": fields})


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with RegistryStub() as running:
        yield running


class Words:
    """A topic of words in Avro, and the tables made from it."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        tables: Path,
        stub: RegistryStub,
        **options: Any,
    ) -> None:
        self.topic = Topic(settings.bootstrap_servers, 1)
        self.spark, self.tables, self.stub = spark, Tables(str(tables)), stub
        more = {"schema_registry": stub.url, **options}
        self.settings = replace(settings, tables=self.tables.root, topic=self.topic.topic, **more)
        self.pipeline = Pipeline(records=avro_records())
        self._writer = Writer(stub, self.topic.topic)

    def put(self, *fields: dict[str, Any], **value: Any) -> None:
        self.topic.put(self._writer.avro(avro(*fields), value))

    def run(self) -> None:
        self.topic.flush()
        run(self.spark, self.settings, self.tables, self.pipeline)

    def rows(self, *columns: str) -> list[Any]:
        return [
            tuple(row)
            for row in self.tables.read(self.spark, "silver")
            .orderBy("kafka_offset")
            .select(*columns)
            .collect()
        ]

    def reasons(self) -> list[str]:
        return [
            row.reason
            for row in self.tables.read(self.spark, "quarantine").orderBy("offset").collect()
        ]

    def asked(self, what: str) -> int:
        return sum(what in request for request in self.stub.requests)


@pytest.fixture
def words(spark: SparkSession, settings: Settings, tmp_path: Path, stub: RegistryStub) -> Words:
    return Words(spark, settings, tmp_path, stub)


@pytest.mark.long
def test_new_version_between_two_runs_adds_a_column(words: Words) -> None:
    """A run uses the latest schema at its start. Existing rows of silver have null in the new
    column."""
    words.put(WORD, word="a")
    words.run()
    assert words.rows("word") == [("a",)]
    words.put(WORD, word="b")
    words.put(WORD, SIZE, word="c", size=1)
    words.topic.put(b"\x00\x00\x00\x00\x63garbage")
    words.run()
    assert words.rows("word", "size") == [("a", None), ("b", -1), ("c", 1)]
    assert words.reasons() == ["schema id 99: the schema registry does not have it"]


@pytest.mark.slow
def test_new_version_during_a_run_is_read(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """Into the columns that the run began with. Each id is queried once, however many batches have
    it."""
    writer = Writer(stub)
    old = writer.avro(avro(WORD), {"word": "a"})
    pipeline = begun(avro_records(), settings, stub)
    assert [row.word for row in read(spark, pipeline, [old, old])] == ["a", "a"]
    new = writer.avro(avro(SIZE, WORD), {"word": "b", "size": 1})
    for _ in range(2):
        rows = read(spark, pipeline, [old, new])
        assert [(row.word, row.reason, "size" in row) for row in rows] == [
            ("a", None, False),
            ("b", None, False),
        ]
    assert [request for request in stub.requests if "/schemas/ids/" in request] == [
        "GET /schemas/ids/1",
        "GET /schemas/ids/2",
    ]


@pytest.mark.slow
def test_registry_outage_ends_the_run_without_loss(words: Words) -> None:
    """The error has the registry, the id and the remedy. Nothing is quarantined, and a later run
    has everything."""
    words.put(WORD, word="a")
    words.run()
    words.put(WORD, SIZE, word="b", size=1)
    words.pipeline = Pipeline(
        records=avro_records(schema=avro(WORD))
    )  # it starts without a registry
    words.stub.answers = 503
    with pytest.raises(
        PipelineError, match=r"the schema registry does not return schema id 2 \(http://127.*503"
    ) as error:
        words.run()
    assert "check that it is up, that --schema-registry is right" in str(error.value)
    assert "\n" not in str(error.value)
    assert (words.rows("word"), words.reasons()) == ([("a",)], [])
    words.stub.answers = None
    words.run()
    assert (words.rows("word"), words.reasons()) == ([("a",), ("b",)], [])


@pytest.mark.long
def test_repeated_batch_uses_its_original_schema(
    words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although there is a later one, which cannot read what silver has. The next run uses the later
    one."""
    words.put(WORD, word="a")
    with monkeypatch.context() as patch:
        break_off_after("write_silver", patch)
        with pytest.raises(PipelineError, match="a query failed"):
            words.run()
    assert words.rows("word") == [("a",)]
    words.put(WORD, {"name": "size", "type": "long"}, word="b", size=1)
    words.run()
    assert (words.rows("word"), words.reasons()) == ([("a",), ("b",)], [])
    words.put(WORD, {"name": "size", "type": "long"}, word="c", size=1)
    words.run()
    assert (words.rows("word", "size"), words.reasons()) == (
        [("a", None), ("b", None), ("c", 1)],
        [],
    )


NO_ID = "the value does not begin with a schema id: byte 0, and 4 more"


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_each_unreadable_record_has_a_reason(
    spark: SparkSession, settings: Settings, stub: RegistryStub, kind: str
) -> None:
    """With the id, if it has one. The good record is read, and nothing raises."""
    writer = Writer(stub)
    other = Writer(stub, "other")
    cases: dict[str, tuple[Any, Callable[[], bytes], Callable[[], bytes]]] = {
        "avro": (avro_records(), lambda: writer.avro(avro(WORD), {"word": "cow"}), lambda: other.json(JSON, {"word": "a"})),
        "json": (json_schema_records(), lambda: writer.json(JSON, {"word": "cow"}), lambda: other.avro(avro(WORD), {"word": "a"})),
    }  # fmt: skip
    records, good, foreign = cases[kind]
    value, theirs = good(), foreign()
    values = [
        None,
        b"",
        b"\x00\x00\x00\x00",
        b'{"word": "cow"}',
        b"\x00\x00\x00\x00\x4d\x06cow",
        theirs,
        value[:5] + b"\xff\xff",
        value,
    ]
    rows = read(spark, begun(records, settings, stub), values)
    foreign_kind, our_kind = ("AVRO", "JSON") if kind == "json" else ("JSON", kind.upper())
    broken = "the value is not UTF-8" if kind == "json" else "the value does not match that schema"
    assert [row.reason for row in rows] == [
        "the value is null",
        NO_ID,
        NO_ID,
        NO_ID,
        "schema id 77: the schema registry does not have it",
        f"schema id 2: it is {foreign_kind}, not {our_kind}",
        f"schema id 1: {broken}",
        None,
    ]
    assert rows[-1].word == "cow"


@pytest.mark.slow
def test_huge_announced_length_does_not_exhaust_the_heap(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """The record announces two gigabytes of text or list. Avro would allocate them first."""
    tags = {"name": "tags", "type": {"type": "array", "items": "string"}}
    value = Writer(stub).avro(avro(WORD, tags), {"word": "a", "tags": ["b"]})
    two_billion = b"\x80\xd0\xac\xf3\x0e"
    values = [value, value[:5] + two_billion, value[:5] + b"\x02a" + two_billion]
    rows = read(spark, begun(avro_records(), settings, stub), values)
    assert [row.reason for row in rows] == [
        None,
        *["schema id 1: the value does not match that schema"] * 2,
    ]


@pytest.mark.slow
def test_time_outside_pythons_range_is_quarantined(
    spark: SparkSession, settings: Settings, stub: RegistryStub
) -> None:
    """Also in nested values. One row with such a time would make the whole table unreadable in
    Python."""
    time = {"type": "long", "logicalType": "timestamp-micros"}
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [{"name": "ats", "type": {"type": "array", "items": time}}],
    }
    value = Writer(stub).avro(
        avro(WORD, {"name": "inner", "type": inner}), {"word": "a", "inner": {"ats": [0]}}
    )
    late = value[:-2] + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + value[-1:]
    rows = read_rows(begun(avro_records(), settings, stub), bronze(spark, [value, late])).orderBy(
        "kafka_offset"
    )
    assert [row.reason for row in rows.select("reason").collect()] == [
        None,
        "schema id 1: field inner has a time outside the years 1 to 9999",
    ]


@pytest.mark.slow
def test_registry_requests_have_the_login(
    stub: RegistryStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the options, or else the address. No message shows it. If an address does not respond,
    the next is used."""
    nobody = f"http://user:secret@127.0.0.1:{reserve_port()}"
    with pytest.raises(PipelineError) as error:
        Registry(f"{nobody},{nobody}", {}).schema(7)
    assert "secret" not in str(error.value)
    assert "schema id 7 (http://127.0.0.1" in str(error.value)
    assert "Connection refused" in str(error.value)
    assert Registry(f"{nobody},{stub.url}", {}).schema(7) is None
    for url, options, expected in (
        (stub.url.replace("//", "//user:p%40ss@"), {}, "Basic dXNlcjpwQHNz"),
        (stub.url, {"basic.auth.user.info": "user:p@ss"}, "Basic dXNlcjpwQHNz"),
        (stub.url, {"bearer.auth.token": "t"}, "Bearer t"),
    ):
        assert Registry(url, options).schema(7) is None
        assert stub.headers[-1].get("Authorization") == expected


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 401, 404, 500])
def test_response_of_another_server_is_refused(stub: RegistryStub, status: int) -> None:
    """A proxy's error page must not count as an unknown schema."""
    stub.answers = status
    with pytest.raises(
        PipelineError,
        match=f"does not return schema id 7 .*{status}.* the response is not from a registry",
    ):
        Registry(stub.url, {}).schema(7)


def test_invalid_registry_settings_are_named(settings: Settings) -> None:
    """In one line, before Spark reads anything."""
    with pytest.raises(
        SettingsError,
        match=r"need a schema registry: give --schema-registry \(KSTORM_PIPELINE_SCHEMA_REGISTRY\)",
    ):
        Pipeline(records=avro_records()).begun(settings)
    with pytest.raises(
        SettingsError, match=r"no option 'basic.auth': give one of basic.auth.user.info, "
    ):
        Registry("http://127.0.0.1:1", {"basic.auth": "user:secret"})
    with pytest.raises(SettingsError, match="certificates cannot be used: No such file"):
        Registry("https://127.0.0.1:1", {"ssl.ca.location": "/no/such"})
