"""A record is exactly one JSON object, whatever stands before, behind or within it."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import localcontext
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from kstorm_pipeline import Pipeline, exact_types, json_records
from kstorm_pipeline.arrow import columns
from kstorm_pipeline.arrow.silver_columns import name_rows
from kstorm_pipeline.exact_json import LEVELS, examiner, reader_of
from kstorm_pipeline.row_reading import read_rows
from tests.pipeline.test_arrow import HEADERS
from tests.pipeline.topic import bronze

pytestmark = pytest.mark.timeout(900)

NOT_JSON = "the value is not JSON"
FIELDS = (("a", True, ("whole", 32), "INT"),)
TEXTS: dict[bytes, str | None] = {
    b'{"a": 1}': None,
    b' \t\r\n{"a": 1} \n': None,
    b'{"a": 1, "x": "\\ud800"}': None,
    b'{"a": 1}] {"a": 2}': NOT_JSON,
    b'{"a": 1}{"a": 2}': NOT_JSON,
    b'{"a": 1},{"a": 2}': NOT_JSON,
    b'{"a": 1} x': NOT_JSON,
    b'{"a": 1}\x00': NOT_JSON,
    b'\xef\xbb\xbf{"a": 1}': NOT_JSON,
    b'{"a": 01}': NOT_JSON,
    b'{"a": +1}': NOT_JSON,
    b'{"a": 0x1}': NOT_JSON,
    b'{"a": .5}': NOT_JSON,
    b'{"a": 1.}': NOT_JSON,
    b'{"a": NaN}': NOT_JSON,
    b'{"x": -Infinity}': NOT_JSON,
    b"{'a': 1}": NOT_JSON,
    b'{"a": 1,}': NOT_JSON,
    b"{a: 1}": NOT_JSON,
    b'{"x": "\n"}': NOT_JSON,
    b'{"x": "\\x"}': NOT_JSON,
    b'/**/{"a": 1}': NOT_JSON,
    b"": NOT_JSON,
    b"1] INFO started [main": NOT_JSON,
    b"1": "the value is not a JSON object",
    b"null": "the value is not a JSON object",
    b'[{"a": 1}]': "the value is not a JSON object",
    b'{"a": "\xff"}': "the value is not UTF-8",
    b'{"x": "\xed\xa0\x80"}': "the value is not UTF-8",
    b'{"a":1}'.decode().encode("utf-16"): "the value is not UTF-8",
    b'{"a": 1, "a": 2}': 'the value is JSON that has the key "a" twice',
    b'{"a": 1, "\\u0061": 1}': 'the value is JSON that has the key "a" twice',
    b'{"a": 1, "x": [{"y": {"k": 1, "k": 1}}]}': 'the value is JSON that has the key "k" twice',
    b'{"a": 1, "x": {"": 1, "": 1}}': 'the value is JSON that has the key "" twice',
    b'{"a": 1, "x": {"\\ud800": 1, "\\ud800": 1}}': 'the value is JSON that has the key "\\ud800" twice',
    b'{"a": 1, "a": 2} x': NOT_JSON,
    b'{"x":' + b"[" * (LEVELS - 1) + b"]" * (LEVELS - 1) + b"}": None,
    b'{"x":' + b"[" * LEVELS + b"]" * LEVELS + b"}": NOT_JSON,
    b'{"x":' + b'{"y":' * 100_000 + b"}" * 100_000 + b"}": NOT_JSON,
    b'{"x":"' + b"[" * 100_000 + b'"}': None,
    b'{"x":' + b"9" * 100_000 + b"}": None,
    b'{"A": 1}': None,
    b'{"a": 2147483648}': "field a does not fit INT: BIGINT",
    b'{"a": 1e2}': "field a is not a whole number of 64 bits but DOUBLE",
    b'{"a": {"' + b"k" * 1_000 + b'": 1}}': "field a is not a whole number of 64 bits but OBJECT<"
    + "k" * 193
    + "…",
}


def test_text_is_exactly_one_object() -> None:
    """Otherwise there is a short reason."""
    read = reader_of(FIELDS)
    for text, reason in TEXTS.items():
        assert read(text)[0] == reason, text[:100]
    assert read(None) == ("the value is null", None)
    assert read(b'{"a": 1}') == (None, (1,))
    assert read(b'{"A": 1}') == (None, (None,))


@pytest.mark.parametrize(
    ("number", "is_zero"),
    [
        ("0e-99999999999999999999", True),
        ("0.0E99999999999999999999", True),
        ("0." + "0" * 5_000, True),
        ("1e-99999999999999999999", False),
        ("1e99999999999999999999", False),
        ("1e-999999999", False),
        ("9" * 5_000, False),
    ],
)
def test_numbers_of_any_size_are_read_at_once(number: str, is_zero: bool) -> None:
    """They do not become zero, and only zeros do."""
    for kind in (("decimal", 38, 18), ("float",), ("double",)):
        for written in (number, f'"{number}"'):
            reason, row = reader_of((("a", True, kind, "?"),))(f'{{"a":{written}}}'.encode())
            fits = is_zero and (written == number or kind[0] == "decimal")
            assert (reason is None, row) == (fits, (0,) if fits else None), (kind, written[:50])


def test_float_halfway_between_two_is_read_whatever_its_length() -> None:
    read = reader_of((("a", True, ("float",), "FLOAT"),))
    for ending, expected in (("", 1.000000238418579), ("1", 1.000000238418579)):
        text = f'{{"a": 1.000000178813934326171875{"0" * 5_000}{ending}}}'
        assert read(text.encode()) == (None, (pytest.approx(expected, abs=1e-12),))


def test_fast_path_reads_no_hour_24() -> None:
    """Since Python 3.14, `fromisoformat` reads it as the next day."""
    assert columns._TIME.fullmatch("2026-11-23T23:59:59Z")
    assert not columns._TIME.fullmatch("2026-11-23T24:00:00Z")


@pytest.mark.slow
def test_spark_reads_exactly_one_object(spark: SparkSession) -> None:
    rows = read_rows(Pipeline(records=json_records("a INT")), bronze(spark, [*TEXTS, None]))
    found = [row.reason for row in rows.orderBy("kafka_offset").collect()]
    assert found == [*TEXTS.values(), "the value is null"]


ANY: dict[bytes, Any] = {
    b"1] INFO started [main": "1] INFO started [main",
    b'{"a": 1}] {"a": 2}': '{"a": 1}] {"a": 2}',
    b"1,0] x": "1,0] x",
    b' {"a": [1, 2.50]} ': {"a": [1, 2.5]},
    b"0.10": 0.1,
    b"1" * 38: int("1" * 38),
    b"NaN": "NaN",
    b"[" * 1_200 + b"]" * 1_200: "[" * 1_200 + "]" * 1_200,
    b'"\xc3\xa9"': "é",
    b"0e-99999999999999999999": 0.0,
    b"-0": 0,
    b"null": None,
    b'{"a": 1, "a": 2': '{"a": 1, "a": 2',
}
REFUSED = {
    b'{"a": 1, "a": 2}': 'the value is JSON that has the key "a" twice',
    b'{"a": 1e400}': "the value is JSON that no VARIANT can hold: the number 1e400",
    b"-1e400": "the value is JSON that no VARIANT can hold: the number -1e400",
    b"1e-400": "the value is JSON that no VARIANT can hold: the number 1e-400",
    b"1" * 39: "the value is JSON that no VARIANT can hold: the number " + "1" * 39,
    b'["\\udc00"]': "the value is JSON that no VARIANT can hold: half of a surrogate pair is not text",
}


@pytest.mark.slow
def test_any_record_is_json_text_or_bytes(spark: SparkSession) -> None:
    """JSON that a VARIANT cannot hold has a reason. Nothing is cut off."""
    rows = read_rows(Pipeline(), bronze(spark, [*ANY, *REFUSED])).orderBy("kafka_offset").collect()
    for row, (text, expected) in zip(rows, ANY.items(), strict=False):
        assert row.reason is None, text[:50]
        with localcontext(prec=38):  # `toPython` rounds to the precision of the context
            found = row.value.toPython()
        assert (float(found) if isinstance(expected, float) else found) == expected
    assert [row.reason for row in rows[len(ANY) :]] == list(REFUSED.values())


NESTED = """
    s STRUCT<n: TINYINT, m: DECIMAL(3,1)>, l ARRAY<DATE>, m MAP<STRING, ARRAY<BOOLEAN>>, v VARIANT,
    d STRUCT<v: VARIANT, l: ARRAY<VARIANT>, m: MAP<STRING, VARIANT>>
"""
FITS: dict[str, Any] = {
    '{"s":{"n":127,"m":"12.30","x":1}}': ("s", (127, "12.3")),
    '{"s":{}}': ("s", (None, None)),
    '{"l":["2026-11-23",null]}': ("l", ["2026-11-23", None]),
    '{"m":{"a.b":[true,null],"":[]}}': ("m", {"a.b": [True, None], "": []}),
    '{"v":{"b":[1,null,"é"],"a":{}}}': ("v", {"b": [1, None, "é"], "a": {}}),
    '{"d":{"v":[1],"l":[1,"x",{}],"m":{"k":{"y":2}}}}': ("d", ([1], [1, "x", {}], {"k": {"y": 2}})),
}
MISFITS = {
    '{"s":{"n":128}}': "field s does not fit STRUCT<N:TINYINT,M:DECIMAL(3,1)>: OBJECT<n: BIGINT>",
    '{"s":{"m":1.25}}': "field s does not fit STRUCT<N:TINYINT,M:DECIMAL(3,1)>: OBJECT<m: DECIMAL(3,2)>",
    '{"l":["2026-11-23 x"]}': "field l does not fit ARRAY<DATE>: ARRAY<STRING>",
    '{"m":{"a":[1]}}': "field m does not fit MAP<STRING,ARRAY<BOOLEAN>>: OBJECT<a: ARRAY<BIGINT>>",
    '{"m":{"\\ud800":[]}}': "field m does not fit MAP<STRING,ARRAY<BOOLEAN>>: OBJECT<?: ARRAY<VOID>>",
    '{"v":[1e999]}': "field v does not fit VARIANT: ARRAY<DOUBLE>",
    '{"d":{"l":["\\ud800"]}}': (
        "field d does not fit STRUCT<V:VARIANT,L:ARRAY<VARIANT>,M:MAP<STRING,VARIANT>>: "
        "OBJECT<l: ARRAY<STRING>>"
    ),
    '{"l":{}}': "field l is not a list but OBJECT<>",
}


def test_nested_values_are_exact(spark: SparkSession) -> None:
    """The rule holds at any depth, and VARIANTs may be anywhere."""

    def told(value: Any) -> Any:
        if hasattr(value, "toPython"):
            return value.toPython()
        if isinstance(value, tuple):
            return tuple(map(told, value))
        if isinstance(value, list):
            return [told(each) for each in value]
        if isinstance(value, dict):
            return {key: told(each) for key, each in value.items()}
        return value if value is None or isinstance(value, (bool, int)) else str(value)

    values = [text.encode() for text in (*FITS, *MISFITS)]
    rows = read_rows(Pipeline(records=json_records(NESTED)), bronze(spark, values))
    found = rows.orderBy("kafka_offset").collect()
    for row, (name, expected) in zip(found, FITS.values(), strict=False):
        assert (row.reason, told(row[name])) == (None, expected)
    assert [row.reason for row in found[len(FITS) :]] == list(MISFITS.values())


def test_record_without_a_timestamp_has_none(spark: SparkSession) -> None:
    """Kafka writes -1 for it, and Spark makes a time in 1969 of that."""
    at = datetime(1970, 1, 1, tzinfo=UTC)
    for moment, expected in ((at - timedelta(milliseconds=1), None), (at, 0)):
        rows = read_rows(Pipeline(), bronze(spark, [b"1"], timestamp=moment))
        (row,) = rows.selectExpr("unix_micros(kafka_timestamp) AS at", "reason").collect()
        assert (row["at"], row.reason) == (expected, None)


def test_python_reads_no_timestamp_as_null() -> None:
    import pyarrow as pa

    kinds = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "headers": pa.array([HEADERS[0], HEADERS[0]], kinds),
            "timestamp": pa.array([-1000, 0], pa.timestamp("us", tz="UTC")),
            "partition": pa.array([0, 0], pa.int32()),
            "offset": pa.array([0, 1], pa.int64()),
        }
    )
    found = name_rows(table, [])["kafka_timestamp"]
    assert found.cast(pa.int64()).to_pylist() == [None, 0]


def test_workers_need_no_package() -> None:
    """Spark sends the readers by value to its workers, whose machines may have only Python."""
    assert exact_types.__name__ in sys.modules, "it registers what is sent by value"
    sent = cloudpickle.dumps((reader_of(FIELDS), examiner()))  # type: ignore[no-untyped-call]
    program = (
        "import sys; from pyspark import cloudpickle; sys.modules['kstorm_pipeline'] = None\n"
        "read, examine = cloudpickle.loads(sys.stdin.buffer.read())\n"
        "print(read(b'{\"a\": 5}'), read(b'{\"a\": 1, \"a\": 2}')[0], examine(b'[1e999]'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=sent, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().startswith("(None, (5,)) the value is JSON that has the key")
    assert json.dumps("number 1e999")[1:-1] in done.stdout.decode()
