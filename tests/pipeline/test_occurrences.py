"""Source coordinates in the name of a record."""

import random
import re

import pytest
from pyspark.sql import SparkSession

from kstorm_pipeline.occurrences import source_of

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores seconds; with ten others on them ten times that

NAME = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,9})-([0-9]{1,18})-[^-]+")
"""<source topic>-<partition>-<offset>-<part>"""
ODD = [
    "-", "---", "-1-2-3", "a-1-2-", "a--2-3", "a-1--3", "3-17-5", "a-1234567890-1-1", "a-1-1234567890123456789-x",
    "x" * 250 + "-1-2-3", "ä-1-2-3", "a b-1-2-3", "a\n-1-2-3", "a-1\n-2-3", "a-1-2\n-3", "a-١-2-3", "\na-1-2-3", "a-+1-2-3", "",
]  # fmt: skip
GOOD = [
    "a-1-2-3", "a-0-0-0-0", "a-b-1-2-3", "--1-2-3", "a-1-2-ä", "a-1-2-\n", "a-1-2-3\n", "x" * 249 + "-1-2-3",
    "a-123456789-123456789012345678-x", "lines.v2_b-0-00-left",
]  # fmt: skip


@pytest.mark.slow
def test_only_names_of_the_exact_form_have_a_source(spark: SparkSession) -> None:
    """The form is that of a regular expression, for any name."""
    draw = random.Random(20110919)
    drawn = ["".join(draw.choices("a-1.9\n ", k=draw.randint(0, 12))) for _ in range(5000)]
    topics = ["a", "a-1", "-", "ä"]
    made = [
        f"{draw.choice(topics)}-{draw.randint(0, 12)}-{draw.randint(0, 10**19)}-{draw.choice('x1-')}"
        for _ in range(500)
    ]
    names = [*ODD, *GOOD, *drawn, *made]
    rows = spark.createDataFrame([(name,) for name in [*names, None]], "name STRING")
    columns = (value.alias(column) for column, value in source_of("name").items())
    found = {row.name: row for row in rows.select("name", *columns).collect()}
    told = {name: match.groups() for name in names if (match := NAME.fullmatch(name))}
    assert set(GOOD) <= told.keys()
    assert not told.keys() & set(ODD)
    for name in [*names, None]:
        row, groups = found[name], told.get(name or "")
        wanted = (
            (None, None, None) if groups is None else (groups[0], int(groups[1]), int(groups[2]))
        )
        assert (row.source_topic, row.source_partition, row.source_offset) == wanted, name
        assert (row.source_bucket is not None) == (groups is not None)
