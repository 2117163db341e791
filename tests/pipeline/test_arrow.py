"""Reading records in Python: its rows are the same as Spark's, and so are its batches."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from kstorm_pipeline import Pipeline, json_records, refine
from kstorm_pipeline.arrow import batches
from kstorm_pipeline.arrow.batches import WrittenBatch
from kstorm_pipeline.arrow.bucket_files import SilverFile
from kstorm_pipeline.arrow.layout_choice import layout_of
from kstorm_pipeline.arrow.record_layout import DoubtfulError, RecordLayout
from kstorm_pipeline.arrow.worker import refined
from kstorm_pipeline.arrow.worker_stats import WorkerStats
from kstorm_pipeline.ddl import columns_of
from kstorm_pipeline.delta_log import DeltaLog
from kstorm_pipeline.row_reading import read_rows
from kstorm_pipeline.tables import BRONZE, Tables
from tests.pipeline.conftest import Job
from tests.pipeline.sink import MINUTE, NOON

COLUMNS = """
    s STRING, b BIGINT, i INT, t TINYINT, o BOOLEAN, d DOUBLE, m DECIMAL(18,2), f DECIMAL(9,6), at TIMESTAMP, on DATE, ms TIMESTAMP
"""
VALUES = [
    *(
        "null",
        "true",
        '""',
        '"x"',
        '"é\\u00e9\\ud83d\\ude00"',
        '"\\ud800"',
        '"a:b"',
        '"a\\":b"',
        '"\\u0000"',
        "[]",
        "{}",
        "[1]",
    ),
    *(
        "0",
        "-0",
        "1",
        "-1",
        "127",
        "128",
        "-129",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "1" * 40,
    ),
    *(
        "1.0",
        "0.0",
        "-0.0",
        "0.1",
        "12.34",
        "12.345",
        "1e2",
        "1E-2",
        "1.5e1",
        "1e400",
        "1e-400",
        "0.12345678901234568",
    ),
    *(
        "12.3400000000000000001",
        "123456789012345678.12",
        "9007199254740993",
        "4.35",
        "0.000001",
        "1234.5678905",
    ),
    *(
        '"12.34"',
        '"-12.3"',
        '"12"',
        '" 12"',
        '"1e2"',
        '"12."',
        '".5"',
        '"12.345"',
        '"12345678901234567"',
        '"00012.50"',
        '"+1"',
    ),
    *(
        '"2026-11-26T05:00:00Z"',
        '"2026-11-26 05:00:00"',
        '"2026-11-26T05:00:00.5+02:00"',
        '"2026-11-26"',
        '"2026-02-30"',
    ),
    *(
        '"2026-11-26T05:00:00.123456789Z"',
        '"1899-12-31T23:59:59Z"',
        '"2026-11-26T24:00:00Z"',
        '"0001-01-01"',
        '"9999-12-31T23:59:59Z"',
    ),
    *(
        '"9999-12-31T23:59:59-05:00"',
        '"2026-11-26T05:00:00-14:30"',
        '"2026-11-26T05:00"',
        '"12026-01-01"',
        "253402300799999",
    ),
    *("253402300800000", "1764130000000"),
]
TEXTS = [
    *(
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b" {}",
        b"{} ",
        b"{} x",
        b"{}{}",
        b"\xef\xbb\xbf{}",
        b"\xff",
        b'{"s":"\xff"}',
        b'{"s":"\xed\xa0\x80"}',
    ),
    *(
        b'{"s":"a","s":"b"}',
        b'{"s" :"a","s":"b"}',
        b'{"x":{"y":1,"y":2}}',
        b'{"x":{"y":1}}',
        b'{"s":"a","x":"b:c"}',
        b'{"s":"a" "b":1}',
    ),
    *(
        b'{"s":"a",}',
        b"{'s':1}",
        b'{"s":NaN}',
        b'{"d":NaN}',
        b'{"d":Infinity}',
        b'{"b":01}',
        b'{"S":"x"}',
        b'{"s":"\n"}',
        b'{"s":"a"}\n',
    ),
    b'{"x":' + b"1" * 1_500 + b"}",
    b'{"x":' + b"[" * 1_500 + b"]" * 1_500 + b"}",
    b'{"x":"' + b"y" * 2_000 + b'"}',
    b'{"' + b"n" * 60_000 + b'":1}',
    *(
        f'{{"{name}":{value}}}'.encode()
        for name in ["s", "b", "i", "t", "o", "d", "m", "f", "at", "on", "ms"]
        for value in VALUES
    ),
]


def _lineage(*values: bytes | None) -> list[tuple[str, bytes | None]]:
    names = [f"kstorm-source-{part}" for part in ("topic", "partition", "offset", "part")]
    return list(zip(names, values, strict=False))


HEADERS: list[list[tuple[str, bytes | None]] | None] = [
    None,
    [],
    [("other", b"x")],
    _lineage(b"t-1", b"3", b"77", b"0"),
    [*_lineage(b"first"), *_lineage(b"second", b"3", b"77", b"0")],
    _lineage(b"t", b"3", b"77", b"a-b"),
    _lineage(b"t", b"3", b"7\n", b"0"),
    _lineage(b"t", b"3", b"77"),
    _lineage(b"t", b"3", b"77", b""),
    _lineage(b"t", b"3", b"77", b"\xff"),
    _lineage(None, b"3", b"77", b"0"),
]
IDS = [
    "topic-0-1-2",
    "a-b-0-1-x",
    "x",
    "-0-1-2",
    "t-0-1-",
    "t-1234567890-1-2",
    "t!-0-1-2",
    "t-007-08-9",
    "",
    "ü-0-1-2",
]


@pytest.mark.slow
def test_python_reads_the_same_as_spark(spark: SparkSession) -> None:
    """Text by text. Python may leave a text to Spark, but otherwise Spark must read the same
    values."""
    pipeline = Pipeline(records=json_records(COLUMNS, key="k", millis="ms"))
    rows = [_record(number, value=text) for number, text in enumerate(TEXTS)]
    assert _compare(spark, pipeline, rows) >= 70


@pytest.mark.slow
@pytest.mark.parametrize("identity", ["id", ("id", "n"), "n", ()])
def test_python_names_records_as_spark_does(spark: SparkSession, identity: Any) -> None:
    pipeline = Pipeline(records=json_records("id STRING, n INT"), identity=identity)
    values = [json.dumps({"id": each, "n": 5}).encode() for each in [*IDS, 'q"', "ctl\u007f", None]]
    rows = [_record(number, value=value, headers=HEADERS[0]) for number, value in enumerate(values)]
    rows += [
        _record(100 + number, value=values[0], headers=each) for number, each in enumerate(HEADERS)
    ]
    rows += [
        _record(200, value=values[0], timestamp=None),
        _record(201, value=values[0], key=b"\xff"),
    ]
    assert _compare(spark, pipeline, rows) >= 12


@pytest.mark.slow
def test_python_leaves_other_records_to_spark(spark: SparkSession) -> None:
    """Complex types, other readers, names that are not text."""
    for kind in ("ARRAY<INT>", "STRUCT<b: INT>", "FLOAT", "DECIMAL(38,2)", "BINARY", "VARIANT"):
        assert layout_of(spark, Pipeline(records=json_records(f"a {kind}"))) is None
    assert layout_of(spark, Pipeline()) is None
    assert layout_of(spark, Pipeline(records=json_records("a DOUBLE"), identity="a")) is None
    needed = Pipeline(records=json_records("a INT, b INT", reject={"no": "b < 1"}), without="b")
    assert layout_of(spark, needed).without == frozenset()  # type: ignore[union-attr]
    assert layout_of(
        spark, Pipeline(records=json_records("a INT, b INT"), without="b")
    ).without == {  # type: ignore[union-attr]
        "b"
    }


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each batch: read by `python` or `spark`, and `committed`
    unchanged."""
    found: list[str] = []
    read, commit = batches.ArrowReader.read, WrittenBatch.commit

    def noted(*arguments: Any) -> WrittenBatch | None:
        written = read(*arguments)
        found.append("spark" if written is None else "python")
        return written

    def committed(*arguments: Any) -> None:
        commit(*arguments)
        found.append("committed")

    monkeypatch.setattr(batches.ArrowReader, "read", noted)
    monkeypatch.setattr(WrittenBatch, "commit", committed)
    return found


@pytest.mark.slow
def test_python_and_spark_write_the_same_batch(
    make_job: Callable[[Path], Job], tmp_path: Path, ways: list[str]
) -> None:
    """Good records are committed as Python wrote them. With replays or rejected records, Spark
    continues from Python's files. With an unreadable record, Spark reads everything. No orphaned
    file is left."""
    job = make_job(tmp_path / "python")
    job.sink.sentence(1, "the cat the dog")
    job.sink.sentence(2, "the end")
    job.run()
    assert ways == ["python", "committed"]
    job.sink.sentence(1, "the cat the dog", at=NOON + MINUTE)
    job.sink.sentence(3, "the dog")
    job.run()
    job.sink.malformed(
        json.dumps(
            {"word": "cat", "count": 0, "id": "sentences-0-9-0", "emitted_at": NOON}
        ).encode()
    )
    job.sink.sentence(4, "a fish")
    job.run()
    job.sink.sentence(5, "a bird")
    job.sink.sentence(5, "a bird")
    job.run()
    assert ways == ["python", "committed", "python", "python", "python"]
    job.sink.malformed(b"{}")
    job.sink.sentence(6, "a fish")
    job.run()
    assert ways[5:] == ["spark"]
    job.check()
    silver = tmp_path / "python" / "silver"
    assert {
        each.relative_to(silver).as_posix() for each in silver.glob("*/*.parquet")
    } == _files_of(job)


@pytest.mark.slow
def test_files_of_a_failed_commit_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta may raise after it has written the commit, so the log may already have the files."""
    file = tmp_path / "silver" / "a.parquet"
    file.parent.mkdir()
    file.write_bytes(b"")

    class Log:
        def __init__(self, *_: object) -> None:
            pass

        def append(self, *_: object) -> bool:
            raise RuntimeError("after the commit")

    monkeypatch.setattr(batches, "DeltaLog", Log)
    monkeypatch.setattr(batches, "query_id_of", lambda _: "query")
    nothing: Any = None
    written = WrittenBatch(
        nothing, [SilverFile("a.parquet", "")], Tables(str(tmp_path)), WorkerStats()
    )
    with pytest.raises(RuntimeError, match="after the commit"), written:
        written.commit(nothing, 0)
    assert file.exists()
    with WrittenBatch(nothing, [SilverFile("a.parquet", "")], Tables(str(tmp_path)), WorkerStats()):
        pass
    assert not file.exists()


@pytest.mark.slow
def test_small_files_of_python_are_compacted(job: Job, ways: list[str]) -> None:
    """Like Spark's own writer after a number of commits, if Delta is configured so."""
    told = {"enabled": "true", "minNumFiles": "3"}
    for name, value in told.items():
        job.spark.conf.set(f"spark.databricks.delta.autoCompact.{name}", value)
    try:
        for number in range(3):
            job.sink.word("cat", f"sentences-0-{number}-0")
            job.run()
    finally:
        for name in told:
            job.spark.conf.unset(f"spark.databricks.delta.autoCompact.{name}")
    assert ways == ["python", "committed"] * 3
    assert DeltaLog(job.spark, job.tables.path("silver")).files == 1
    job.check()


@pytest.mark.long
def test_python_and_spark_write_the_same_tables(
    make_job: Callable[[Path], Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(tmp_path / "python")
    for number in range(50):
        job.sink.sentence(number, "the cat and the dog", at=NOON + number * 1000)
    job.run()
    other = Job(job.spark, replace(job.settings, tables=str(tmp_path / "spark")), job.sink)
    with monkeypatch.context() as patch:
        patch.setattr(batches, "_layout_for", lambda *_: None)
        other.run()
    assert job.snapshot() == other.snapshot()
    assert _told(job) == _told(other)


def test_interrupted_batch_is_not_written_twice(
    job: Job, monkeypatch: pytest.MonkeyPatch, ways: list[str]
) -> None:
    """Silver has the batch, and gold has not. The next run writes its files again, and Delta
    refuses them."""
    job.sink.sentence(1, "the cat the dog")

    def fail(*_: object) -> int:
        raise RuntimeError("the end")

    with monkeypatch.context() as patch:
        patch.setattr(refine, "merge_gold", fail)
        with pytest.raises(Exception, match="the end"):
            job.run()
    job.run()
    assert ways == ["python", "committed", "python", "committed"]
    job.check()
    silver = Path(job.tables.path("silver"))
    assert {
        each.relative_to(silver).as_posix() for each in silver.glob("*/*.parquet")
    } == _files_of(job)


def _record(number: int, **given: Any) -> dict[str, Any]:
    place = {"topic": "sink", "partition": 1, "offset": number, "timestamp": NOON * 1000}
    return {"key": b"k", "value": b"{}", **place, "headers": None, **given}


def _compare(spark: SparkSession, pipeline: Pipeline, records: list[dict[str, Any]]) -> int:
    """Read each record in both ways. Return how many Python accepted."""
    shape = layout_of(spark, pipeline)
    assert shape is not None
    found = {
        record["offset"]: row
        for record in records
        if (row := _by_python(shape, record)) is not None
    }
    rows = _by_spark(
        spark, pipeline, [record for record in records if record["offset"] in found]
    ).collect()
    for each in rows:
        by_spark = each.asDict()
        assert by_spark.pop("reason") is None, each
        by_python = found[each["kafka_offset"]]
        assert {name: repr(value) for name, value in by_python.items()} == {
            n: repr(v) for n, v in by_spark.items()
        }
    assert len(rows) == len(found)
    return len(rows)


def _by_python(shape: RecordLayout, record: dict[str, Any]) -> dict[str, Any] | None:
    kinds = pa.schema(
        [
            *[
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
            ],
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )
    headers = record["headers"] and [
        {"key": key, "value": value} for key, value in record["headers"]
    ]
    try:
        made = refined(shape, 0, pa.Table.from_pylist([{**record, "headers": headers}], kinds))
    except DoubtfulError:
        return None
    (row,) = made.drop_columns(["batch"]).to_pylist()
    # Spark gives times as the machine's clock has them.
    return {
        n: v.astimezone().replace(tzinfo=None) if isinstance(v, datetime) else v
        for n, v in row.items()
    }


def _by_spark(spark: SparkSession, pipeline: Pipeline, records: list[dict[str, Any]]) -> DataFrame:
    columns = columns_of(BRONZE.replace("timestamp TIMESTAMP", "timestamp BIGINT"))
    rows = spark.createDataFrame(
        [tuple(each[name] for name in columns.names) for each in records], columns
    )
    return read_rows(
        pipeline,
        rows.selectExpr("* EXCEPT (timestamp)", "timestamp_micros(timestamp) AS timestamp"),
    ).drop("record")


def _files_of(job: Job) -> set[str]:
    return {each.split("/silver/")[1] for each in job.read("silver").inputFiles()}


def _told(job: Job) -> dict[str, Any]:
    """Return the statistics of silver's files in Delta's log, by bucket."""
    rows = (
        DeltaLog(job.spark, job.tables.path("silver"))
        .files_as_rows()
        .select("partitionValues", "stats")
        .collect()
    )
    found = {row[0]["source_bucket"]: json.loads(row[1]) for row in rows}
    for each in found.values():
        each.pop("tightBounds", None)
        each["nullCount"].pop("source_bucket", None)
    return found
