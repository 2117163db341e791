"""The tables after three runs over one topic, the third without new records."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kstorm_pipeline import report
from kstorm_pipeline.delta_log import DeltaLog
from kstorm_pipeline.local_rows import local_show, local_summary
from kstorm_pipeline.tables import Tables
from tests.pipeline.conftest import Job
from tests.pipeline.sink import MINUTE, NOON

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

GOOD = {"word": "cat", "count": 1, "id": "sentences-0-9-0", "emitted_at": NOON}

MALFORMED = {
    b"not json at all": "the value is not JSON",
    b'{"word": "cat"': "the value is not JSON",
    json.dumps(GOOD).encode() + b" and more": "the value is not JSON",
    json.dumps(GOOD).encode() + b", {}": "the value is not JSON",
    b"": "the value is not JSON",
    b'{"a":' * 2000 + b"1" + b"}" * 2000: "the value is not JSON",
    b'["cat", 1]': "the value is not a JSON object",
    b"null": "the value is not a JSON object",
    b'"\xff\xfe"': "the value is not UTF-8",
    json.dumps({**GOOD, "word": 12}).encode(): "field word is not a string but BIGINT",
    json.dumps(
        {**GOOD, "count": "1"}
    ).encode(): "field count is not a whole number of 64 bits but STRING",
    json.dumps(
        {**GOOD, "count": True}
    ).encode(): "field count is not a whole number of 64 bits but BOOLEAN",
    json.dumps(
        {**GOOD, "count": None}
    ).encode(): "field count is not a whole number of 64 bits but VOID",
    json.dumps(
        {**GOOD, "count": 10**30}
    ).encode(): "field count is not a whole number of 64 bits but DECIMAL(31,0)",
    json.dumps({**GOOD, "count": 0}).encode(): "field count is below 1",
    json.dumps({**GOOD, "id": ""}).encode(): "field id is empty",
    json.dumps({"word": "cat", "count": 1, "emitted_at": NOON}).encode(): "field id is missing",
    json.dumps({**GOOD, "emitted_at": 2**62}).encode(): (
        "field emitted_at is not a time in milliseconds between the years 1970 and 9999"
    ),
}


@dataclass(frozen=True)
class Filled:
    job: Job
    after_second_run: dict[str, list[str]]
    after_third_run: dict[str, list[str]]


@pytest.fixture(scope="module")
def filled(make_job: Callable[[Path], Job], tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Tables after two runs, with replays in a batch, across batches, and with ids of any form. A
    third run adds nothing."""
    job = make_job(tmp_path_factory.mktemp("tables"))
    sink = job.sink
    sink.sentence(1, "the cat the dog")
    sink.sentence(2, "the end", at=NOON + MINUTE - 1)
    sink.sentence(1, "the cat the dog", at=NOON + 2)
    for value in MALFORMED:
        sink.malformed(value)
    sink.malformed(None)
    sink.sentence(3, "dog", at=NOON + MINUTE)
    sink.word("tree", "an-id-of-a-topology-of-ones-own", at=NOON + MINUTE)
    sink.traced("fish", 7, "0")
    sink.traced("fish", 7, "0", "an-attempt")
    sink.traced("fish", 7, "1", "an-attempt")
    sink.sentence(8, "whale")
    sink.traced("squid", 9, "0", "by-its-id", part=b"")
    job.run()
    sink.traced("fish", 7, "0", "another-attempt")
    sink.traced("fish", 7, "x", "another-attempt")
    sink.traced("fish", 7, "x")
    sink.traced("whale", 8, "0", "an-attempt")
    sink.traced("squid", 9, "0", "by-its-id", offset=b"nine")
    sink.traced("squid", 9, "0", None, topic=b"\xff")
    sink.sentence(2, "the end", at=NOON + 3 * MINUTE)
    sink.sentence(1, "the cat the dog", at=NOON + 3 * MINUTE)
    sink.malformed(b"{}")
    sink.sentence(4, "the bird", at=NOON + 1)
    sink.word("tree", "an-id-of-a-topology-of-ones-own", at=NOON + MINUTE)
    sink.word("tree", "another", at=NOON + MINUTE)
    job.run()
    before = job.snapshot()
    job.run()
    return Filled(job, before, job.snapshot())


def test_every_table_agrees_with_plain_python(filled: Filled) -> None:
    """Whatever was written, replayed or malformed, all tables are right, without duplicates."""
    filled.job.check()


def test_bronze_keeps_every_record_unchanged(filled: Filled) -> None:
    """With key, value, coordinates, timestamp and headers, also of malformed records and replays."""
    rows = filled.job.read("bronze").collect()
    found = {
        (row.partition, row.offset): (
            row.topic,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            row.timestamp.astimezone(UTC),
            {header.key: bytes(header.value) for header in row.headers or ()},
        )
        for row in rows
    }
    assert len(found) == len(rows)
    assert found == {
        (r.partition, r.offset): (
            filled.job.sink.topic,
            r.key,
            r.value,
            datetime.fromtimestamp(r.at / 1000, UTC),
            r.headers,
        )
        for r in filled.job.sink.records
    }


def test_first_record_of_an_occurrence_stays(filled: Filled) -> None:
    """Replays in the same batch and in a later one, with higher counts, do not change silver."""
    silver = filled.job.silver
    assert silver["sentences-0-1-1"][:2] == ("cat", 1)
    assert silver["sentences-0-2-1"][:2] == ("end", 1)
    assert silver["an-id-of-a-topology-of-ones-own"][:2] == ("tree", 1)


def test_replay_is_recognised_by_its_lineage_headers(filled: Filled) -> None:
    """Whatever its id, in one batch and across batches, and even if the first record had no
    headers. With incomplete headers, the record's id counts, and a record without an id is
    malformed."""
    silver, words = filled.job.silver, filled.job.word_counts
    assert {id for id, row in silver.items() if row[0] == "fish"} == {
        f"sentences-0-7-{part}" for part in "01x"
    }
    assert silver["sentences-0-7-0"][1] == 1
    assert words["fish"] == (6, 3)
    assert words["whale"] == (2, 1)
    assert words["squid"] == (2, 1)


def test_gold_has_the_latest_and_the_exact_count(filled: Filled) -> None:
    """The latest count grows with every replay, the number of occurrences does not."""
    words = filled.job.word_counts
    assert words["the"] == (9, 4)
    assert words["cat"] == (3, 1)
    assert words["end"] == (2, 1)
    assert words["tree"] == (3, 2)


def test_occurrence_counts_in_the_minute_of_its_first_record(filled: Filled) -> None:
    """The last millisecond belongs to its minute, a replay to none, and a late record to its own
    minute."""
    minutes = filled.job.counts_per_minute
    assert minutes[NOON, "the"] == 4
    assert minutes[NOON, "end"] == 1
    assert minutes[NOON, "bird"] == 1
    assert minutes[NOON + MINUTE, "dog"] == 1
    assert not [pair for pair in minutes if pair[0] == NOON + 3 * MINUTE]


def test_malformed_value_is_quarantined_with_a_reason(filled: Filled) -> None:
    """With its raw value and coordinates. The records after it are read."""
    rows = filled.job.read("quarantine").collect()
    untold = [row for row in rows if row.value is not None and b"squid" in bytes(row.value)]
    assert [row.reason for row in untold] == ["field id is missing"]
    reasons = {
        None if row.value is None else bytes(row.value): row.reason
        for row in rows
        if row not in untold
    }
    expected: dict[bytes | None, str] = {None: "the value is null", b"{}": "field word is missing"}
    assert reasons == expected | MALFORMED
    places = {(row.partition, row.offset) for row in rows}
    assert places == {(r.partition, r.offset) for r in filled.job.sink.records if r.id is None}


@pytest.mark.slow
def test_run_without_new_records_adds_nothing(filled: Filled) -> None:
    """A second available-now run leaves every row of every table unchanged."""
    assert filled.after_third_run == filled.after_second_run


@pytest.mark.long
def test_rows_are_counted_without_statistics(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without statistics, and deleted rows in a remaining file."""
    job.sink.sentence(0, "the cat")
    job.run()
    job.spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        job.sink.sentence(1, "a dog")
        job.run()
    finally:
        job.spark.conf.unset("spark.databricks.delta.stats.collect")
    assert _summary(job, monkeypatch)["silver"] == 4
    gold = "word_counts"
    job.tables.set_properties(job.spark, gold, {"delta.enableDeletionVectors": "true"})
    job.sink.sentence(2, "one two three")
    job.run()
    job.spark.sql(f"DELETE FROM {job.tables.sql_name(gold)} WHERE word = 'two'")
    assert _summary(job, monkeypatch)[gold] == job.read(gold).count() == 6


def _summary(job: Job, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return the summary, also as for a table with very many files, which Delta does not keep in
    memory."""
    found = report.summary(job.spark, job.tables)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "noted_files", lambda _: None)
        assert report.summary(job.spark, job.tables) == found
    return found


@pytest.mark.slow
def test_report_matches_the_tables(filled: Filled, tmp_path: Path) -> None:
    """Row counts, the most frequent words, and all words in the export."""
    job = filled.job
    assert report.summary(job.spark, job.tables) == {
        name: len(rows) for name, rows in filled.after_third_run.items()
    }
    top = map(json.loads, report.show(job.spark, job.tables, "word_counts", 2, by="occurrences"))
    assert [(row["word"], row["count"], row["occurrences"]) for row in top] == [
        ("the", 9, 4),
        ("fish", 6, 3),
    ]
    report.export(job.spark, job.tables, "word_counts", tmp_path / "counts.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "counts.jsonl").read_text().splitlines()]
    assert {
        line["word"]: (line["count"], line["occurrences"]) for line in lines
    } == job.sink.word_counts


@pytest.mark.slow
def test_commands_without_spark_print_what_spark_prints(filled: Filled) -> None:
    """The number of rows of each table, all rows, and those with the greatest values."""
    job, root = filled.job, filled.job.tables.root
    found = report.summary(job.spark, job.tables)
    assert local_summary(root) == found
    for name, rows in found.items():
        local = local_show(root, name, rows + 1)
        assert sorted(local) == sorted(report.show(job.spark, job.tables, name, rows + 1)), name
    for by in ("occurrences", "count", "word"):
        shown = list(report.show(job.spark, job.tables, "word_counts", 5, by))
        assert local_show(root, "word_counts", 5, by) == shown, by


@pytest.mark.slow
def test_values_without_spark_look_as_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The values have each type. Java writes some of them in its own way."""
    texts = ["", None, '"\x00\x1f\x7f\\u001f/\\', "Zoë \u2028 😀", "\b\f\n\r\t"]
    numbers = [0.0, -0.0, 1e7, 9999999.0, 0.001, 1e-4, 123456.789, 1.5e300, -2.5, None]
    numbers += [float("nan"), float("inf"), float("-inf"), 100.0, 1e-10, 3.4e38]
    times = ["0001-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2026-01-02 03:04:05.6789", None]
    columns = {
        "texts": [f"cast({_literal(each)} as string)" for each in texts],
        "doubles": [f"cast({_literal(each)} as double)" for each in numbers],
        "floats": [f"cast({_literal(each)} as float)" for each in numbers],
        "decimals": [f"cast('{each}' as decimal(20, 9))" for each in ("0", "1e-9", "-12.5", "1e9")],
        "times": [f"cast({_literal(each)} as timestamp)" for each in times],
        "days": [f"cast({_literal(each and each[:10])} as date)" for each in times],
        "truths": ["true", "false", "cast(null as boolean)"],
        "bytes": ["X'00FF'", "X''", "cast(null as binary)"],
        "small": ["1Y", "-128Y", "cast(null as tinyint)"],
        "maps": ["map('a', 1.5D)", "map()", "map('b', null)"],
        "variants": [
            f"parse_json({_literal(each)})"
            for each in ('{"Zoë": [1, 1.50, 1e20, "é\\n", null, true], "a": {"b": 1e-9}}', "null")
        ]
        + ["cast(1.5D as variant)", "cast(X'00' as variant)", "cast(null as variant)"]
        + ["cast(DATE'2026-01-02' as variant)", "cast(0.1F as variant)"]
        + ["cast(123456789012345678901234567890.5BD as variant)"],
        "lists": ["array(named_struct('a', 1, 'b', X'01'), null)", "array()"],
    }
    count = max(map(len, columns.values()))
    rows = (
        f"select '{number:02}' as key, "
        + ", ".join(
            f"{values[number] if number < len(values) else 'null'} as {name}"
            for name, values in columns.items()
        )
        for number in range(count)
    )
    tables = Tables(str(tmp_path))
    spark.sql(" union all ".join(rows)).write.format("delta").save(tables.path("all"))
    local = local_show(tables.root, "all", count)
    assert sorted(local) == sorted(report.show(spark, tables, "all", count))
    for by in set(columns) - {"maps", "lists", "variants"}:
        shown = list(report.show(spark, tables, "all", 7, by))
        assert local_show(tables.root, "all", 7, by) == shown, by
    assert local_summary(tables.root) == report.summary(spark, tables) == {"all": count}


def _literal(value: object) -> str:
    if value is None:
        return "null"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"
