"""Notes of Python's workers on their rows match Spark's survey."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline.arrow import worker_stats
from kstorm_pipeline.arrow.silver_columns import sources_of
from kstorm_pipeline.arrow.worker_stats import WorkerStats, merge_stats
from kstorm_pipeline.batch_stats import collect_stats
from kstorm_pipeline.replay_lookup import _all_differ
from kstorm_pipeline.spans import MOST_SOURCES

FORMLESS = ["x", "ü", "-0-1-2", "t!-0-1-2", "a" * 5000]


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        [f"t-{number % 3}-{number}-{part}" for number in range(2000) for part in "ab"],
        [f"t-0-{offset}-0" for offset in (*range(10), *range(5000, 5010), 10**17)],
        [f"t-0-{block * 1000 + offset}-0" for block in range(40) for offset in range(3)],
        [*FORMLESS, "t-0-1-0", None],
        ["t-0-1-0", "t-1-1-0", "t-0-1-0"],
        [None, None],
        [f"t{number}-0-1-0" for number in range(MOST_SOURCES)],
        [f"t{number}-0-1-0" for number in range(MOST_SOURCES + 1)],
    ],
    ids=["new", "old", "gaps", "formless", "twice", "nameless", "places", "too-many-places"],
)
def test_notes_match_sparks_survey(
    spark: SparkSession, tmp_path: Path, names: list[str | None]
) -> None:
    rows = _rows(names)
    noted = WorkerStats()
    noted.add(rows)
    pq.write_table(rows, tmp_path / "rows.parquet")
    records = spark.read.parquet(str(tmp_path)).withColumn("reason", sf.lit(None).cast("string"))
    found = collect_stats(records)
    assert (noted.rows, noted.named, noted.sources) == (found.size, found.named, found.sources)
    assert (noted.named > noted.told) == found.tells_no_offset
    named = records.where("occurrence IS NOT NULL")
    assert noted.differ == _all_differ(named, found.named)


def test_notes_of_several_parts_are_combined() -> None:
    """One name is in two parts. The offsets of both parts are covered."""
    parts = [
        [f"t-0-{offset}-0" for offset in range(begin, begin + 300)] for begin in (0, 300, 9000)
    ]
    whole = merge_stats(map(_noted, parts))
    assert (whole.rows, whole.named, whole.told, whole.differ) == (900, 900, 900, True)
    assert whole.sources is not None
    assert [(span.first, span.last) for span in whole.sources] == [(0, 599), (9000, 9299)]
    assert not merge_stats(map(_noted, [*parts, ["t-0-9100-0"]])).differ
    many = [[f"t{number}-{part}-1-0" for number in range(MOST_SOURCES - 10)] for part in (0, 1)]
    assert merge_stats(map(_noted, many)).sources is None
    assert merge_stats([]).differ


def test_very_many_names_are_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_stats, "_MOST_NAMES", 10)
    assert _noted([f"t-0-{offset}-0" for offset in range(10)]).differ
    assert not _noted([f"t-0-{offset}-0" for offset in range(11)]).differ
    assert not merge_stats(
        [_noted(["a"]), _noted([f"t-0-{offset}-0" for offset in range(10)])]
    ).differ


def test_very_many_cells_become_whole_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_stats, "MOST_CELLS", 10)
    noted = _noted([f"t-0-{offset * 1000}-0" for offset in range(11)])
    assert [(span.first, span.last) for span in noted.sources or []] == [(0, 10_000)]


@pytest.mark.slow
@pytest.mark.parametrize("text", [1, 1000, 1 << 20])
def test_equal_names_have_equal_hashes(monkeypatch: pytest.MonkeyPatch, text: int) -> None:
    """However many bytes are hashed at once, and wherever in a larger array the names are. Other
    names have other hashes."""
    monkeypatch.setattr(worker_stats, "_TEXT", text)
    names = [
        f"{topic}-{n % 7}-{n}-{part}"
        for topic in ("s", "sentences", "ü")
        for n in range(2000)
        for part in "012"
    ]
    random.Random(1).shuffle(names)
    numbers = np.concatenate(list(worker_stats._numbers(pa.array(["before", *names]).slice(1))))
    assert len(np.unique(numbers)) == len(names)
    again = np.concatenate(list(worker_stats._numbers(pa.array(names[::-1]))))
    assert np.array_equal(numbers, again[::-1])


def _rows(names: list[str | None]) -> pa.Table:
    occurrence = pa.array(names, pa.string())
    return pa.table({"occurrence": occurrence, **sources_of(occurrence)})


def _noted(names: list[str]) -> WorkerStats:
    found = WorkerStats()
    found.add(_rows(list(names)))
    return found
