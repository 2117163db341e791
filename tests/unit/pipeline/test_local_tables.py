"""`summary` and `show` on tables on a local disk, for which Spark is not started."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.variant_utils import VariantUtils

from kstorm_pipeline import __main__ as program
from kstorm_pipeline.__main__ import main
from kstorm_pipeline.spark_variant import VARIANT

AT = datetime(2026, 1, 2, 3, 4, 5, 678999, UTC)


class Table:
    """A Delta table of which a test writes each commit."""

    def __init__(self, root: Path, name: str, columns: dict[str, Any], by: str = "") -> None:
        self.folder = root / name
        self.log = self.folder / "_delta_log"
        self.log.mkdir(parents=True)
        fields = [{"name": name, "type": each, "nullable": True} for name, each in columns.items()]
        self.metadata = {
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [by] if by else [],
            "configuration": {},
        }
        self.protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
        self.version = 0
        self.commit({"protocol": self.protocol}, {"metaData": self.metadata})

    def commit(self, *actions: dict[str, Any]) -> None:
        text = "".join(f"{json.dumps(each)}\n" for each in actions)
        (self.log / f"{self.version:020}.json").write_text(text)
        self.version += 1

    def add(self, path: str, rows: pa.Table, *, stats: bool = True, **more: Any) -> dict[str, Any]:
        """Write a file, and return its `add` action."""
        file = self.folder / path.replace("%20", " ")
        file.parent.mkdir(exist_ok=True)
        pq.write_table(rows, file, use_deprecated_int96_timestamps=path.startswith("int96"))
        noted = json.dumps({"numRecords": rows.num_rows}) if stats else None
        size = file.stat().st_size
        return {"add": {"path": path, "partitionValues": {}, "size": size, "stats": noted, **more}}

    def checkpoint(self, *actions: dict[str, Any]) -> None:
        """Write a checkpoint of the last commit, and delete the commits."""
        last = self.version - 1
        for commit in self.log.glob("*.json"):
            commit.unlink()
        names = ("add", "metaData", "protocol")
        rows = [{name: each.get(name) for name in names} for each in actions]
        maps = pa.map_(pa.string(), pa.string())
        add = pa.struct(
            [
                ("path", pa.string()),
                ("partitionValues", maps),
                ("size", pa.int64()),
                ("stats", pa.string()),
            ]
        )
        metadata = pa.struct([("schemaString", pa.string()), ("configuration", maps)])
        protocol = pa.struct([("minReaderVersion", pa.int32())])
        types = zip(names, (add, metadata, protocol), strict=True)
        pq.write_table(
            pa.Table.from_pylist(rows, pa.schema(list(types))),
            self.log / f"{last:020}.checkpoint.parquet",
        )


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(program, "start_spark", start)


def words(root: Path) -> Table:
    return Table(root, "words", {"word": "string", "count": "long"})


def rows_of(*pairs: tuple[str | None, int | None]) -> pa.Table:
    return pa.table(
        {
            "word": pa.array([pair[0] for pair in pairs], pa.string()),
            "count": pa.array([pair[1] for pair in pairs], pa.int64()),
        }
    )


def variant(text: str) -> dict[str, bytes]:
    value, metadata = VariantUtils.parse_json(text)
    return {"value": bytes(value), "metadata": bytes(metadata)}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    assert main(words) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_summary_counts_the_rows_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Statistics count where a file has them, and its footer counts otherwise. Removed files do not
    count, and neither do the rows that a deletion vector names."""
    table, silver = words(tmp_path), Table(tmp_path, "silver", {"word": "string"})
    first = table.add("a.parquet", rows_of(("a", 1), ("b", 2)))
    second = table.add("b%20c.parquet", rows_of(("c", 3)), stats=False)
    table.commit(first, second)
    assert printed(capsys, "summary", "--tables", str(tmp_path)) == [{"silver": 0, "words": 3}]
    table.commit(
        {"remove": {"path": "a.parquet"}},
        {"add": {**first["add"], "deletionVector": {"storageType": "u", "cardinality": 1}}},
    )
    assert printed(capsys, "summary", "--tables", str(tmp_path)) == [{"silver": 0, "words": 2}]
    silver.commit(silver.add("d.parquet", pa.table({"word": ["d"]})))
    assert printed(capsys, "summary", "--tables", str(tmp_path)) == [{"silver": 1, "words": 2}]


def test_the_last_checkpoint_replaces_the_commits_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Delta deletes commits after a week."""
    table = words(tmp_path)
    first = table.add("a.parquet", rows_of(("a", 1), ("b", 2)))
    table.commit(first)
    table.checkpoint({"protocol": table.protocol}, {"metaData": table.metadata}, first)
    table.commit(table.add("b.parquet", rows_of(("c", 3))))
    assert printed(capsys, "summary", "--tables", str(tmp_path)) == [{"words": 3}]
    shown = printed(capsys, "show", "words", "--tables", str(tmp_path))
    assert sorted(row["word"] for row in shown) == ["a", "b", "c"]
    table.commit({"remove": {"path": "a.parquet"}})
    assert printed(capsys, "show", "words", "--tables", str(tmp_path)) == [
        {"word": "c", "count": 3}
    ]


def test_show_prints_values_as_spark_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each line is what `to_json` of Spark 4.0.0 returned for these values."""
    headers = pa.struct([("key", pa.string()), ("value", pa.binary())])
    columns = {
        "t": ("string", pa.string(), '"\x1f\\u001f\\Zoë\n'),
        "b": ("binary", pa.binary(), b"\x00\xff"),
        "i": ("integer", pa.int32(), -7),
        "d": ("decimal(28,2)", pa.decimal128(28, 2), Decimal("1.50")),
        "small": ("decimal(10,8)", pa.decimal128(10, 8), Decimal("0.00000001")),
        "f": ("double", pa.float64(), 1e7),
        "g": ("double", pa.float64(), float("nan")),
        "h": ("float", pa.float32(), 0.1),
        "yes": ("boolean", pa.bool_(), True),
        "day": ("date", pa.date32(), date(2026, 1, 2)),
        "at": ("timestamp", pa.timestamp("us"), AT.replace(tzinfo=None)),
        "none": ("string", pa.string(), None),
        "v": ("variant", VARIANT, variant('{"Zoë": [1, 1.50, 1e20, "é", null, true]}')),
        "headers": (
            {"type": "array", "elementType": {"type": "struct", "fields": [
                {"name": "key", "type": "string"}, {"name": "value", "type": "binary"}]}},
            pa.list_(headers),
            [{"key": "k", "value": None}],
        ),
        "map": (
            {"type": "map", "keyType": "string", "valueType": "long"},
            pa.map_(pa.string(), pa.int64()),
            [("one", 1)],
        ),
    }  # fmt: skip
    table = Table(
        tmp_path, "all", {name: each[0] for name, each in columns.items()} | {"new": "long"}
    )
    rows = pa.table({name: pa.array([each[2]], each[1]) for name, each in columns.items()})
    table.commit(table.add("int96.parquet", rows))
    assert main(["show", "all", "--tables", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        r'{"t":"\"\u001F\\u001f\\Zoë\n","b":"AP8=","i":-7,"d":1.50,"small":1E-8,"f":1.0E7,"g":"NaN",'
        r'"h":0.1,"yes":true,"day":"2026-01-02","at":"2026-01-02T03:04:05.678Z","none":null,'
        r'"v":{"Zoë":[1,1.5,1.0E20,"é",null,true]},'
        r'"headers":[{"key":"k","value":null}],"map":{"one":1},"new":null}'
        "\n"
    )


def test_show_by_a_column_orders_as_spark_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The greatest value is first, nulls are last. Equal values are in the order of the texts, and
    there null is first. The values of a partition are in the log only."""
    table = Table(
        tmp_path, "words", {"word": "string", "count": "long", "bucket": "integer"}, by="bucket"
    )
    more = rows_of(("z", None), ("b", 5), (None, 5))
    table.commit(
        table.add("a.parquet", rows_of(("a", 1), ("c", 7)), partitionValues={"bucket": "3"}),
        table.add("b.parquet", more, partitionValues={"bucket": None}),
    )
    by = ("show", "words", "--by", "count", "--tables", str(tmp_path))
    assert [tuple(row.values()) for row in printed(capsys, *by)] == [
        ("c", 7, 3),
        (None, 5, None),
        ("b", 5, None),
        ("a", 1, 3),
        ("z", None, None),
    ]
    assert [row["word"] for row in printed(capsys, *by, "--n", "2")] == ["c", None]


@pytest.mark.parametrize(
    ("words_", "message"),
    [
        (
            ["summary"],
            "there are no tables at {root}/none: run the pipeline first, or correct --tab",
        ),
        (["show", "words"], "there are no tables at {root}/none: run the pipeline first"),
    ],
)
def test_missing_tables_are_explained_in_one_line(
    words_: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, as for any other wrong setting."""
    assert main([*words_, "--tables", f"{tmp_path}/none"]) == 2
    said = capsys.readouterr().err
    assert message.format(root=tmp_path) in said
    assert said.count("\n") == 1


def test_wrong_names_are_explained_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words(tmp_path)
    assert main(["show", "letters", "--tables", str(tmp_path)]) == 2
    assert f"there is no table {tmp_path}/letters: there are words" in capsys.readouterr().err
    assert main(["show", "words", "--by", "size", "--tables", str(tmp_path)]) == 2
    assert "the table words has no column 'size'; it has word, count" in capsys.readouterr().err


def test_spark_reads_what_only_spark_can(tmp_path: Path) -> None:
    """Unknown features, renamed columns, deleted rows, missing commits and lost files."""
    table = words(tmp_path)
    first = table.add("a.parquet", rows_of(("a", 1)))
    table.commit(first)
    show, summary = (
        [*each, "--tables", str(tmp_path)] for each in (["show", "words"], ["summary"])
    )
    assert main(show) == 0
    vector = {"storageType": "u", "pathOrInlineDv": "x", "cardinality": 1}
    for commands, action in [
        ([show], {"add": {**first["add"], "deletionVector": vector}}),
        ([show, summary], {"protocol": {"minReaderVersion": 3, "readerFeatures": ["new"]}}),
        (
            [show, summary],
            {"metaData": {**table.metadata, "configuration": {"delta.columnMapping.mode": "name"}}},
        ),
        ([show], {"add": {**first["add"], "path": "lost.parquet"}}),
    ]:
        table.commit(action)
        for command in commands:
            with pytest.raises(AssertionError, match="Spark is started"):
                main(command)
        table.version -= 1
        (table.log / f"{table.version:020}.json").unlink()
    table.version += 1
    table.commit()
    with pytest.raises(AssertionError, match="Spark is started"):
        main(summary)
