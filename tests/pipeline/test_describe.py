"""Output of `describe`."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kstorm_pipeline import PipelineError, report
from kstorm_pipeline.table_description import describe
from tests.pipeline.orders import Orders

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that


@pytest.mark.slow
def test_describe_prints_each_table(orders: Orders) -> None:
    """Columns, rows, files, size, last batch and declaration, as JSON."""
    with pytest.raises(PipelineError, match="there are no tables at"):
        list(describe(orders.spark, orders.settings, orders.tables, None))
    for number in range(2):
        orders.put(f"0-{number}", "Zoë", "1.50", "new", number)
        orders.run()
    orders.topic.put("?")
    orders.run()
    found = {
        each["table"]: each for each in describe(orders.spark, orders.settings, orders.tables, None)
    }
    assert list(found) == orders.tables.names(orders.spark)
    assert {name: found[name]["rows"] for name in found} == report.summary(
        orders.spark, orders.tables
    )
    assert [found[name]["last_batch"] for name in ("bronze", "silver", "quarantine", "totals")] == [
        2,
        1,
        2,
        1,
    ]
    (totals,) = describe(orders.spark, orders.settings, orders.tables, "totals")
    assert json.loads(report.json_line(totals)) == totals == found["totals"]
    assert totals["columns"] == {
        "customer": "string",
        "amount": "decimal(28,2)",
        "orders": "bigint",
        "first": "bigint",
        "last": "bigint",
        "status": "string",
        "length": "int",
        "position": orders.tables.read(orders.spark, "totals")
        .schema["position"]
        .dataType.simpleString(),
    }
    assert totals["definition"] == orders.pipeline.golds["totals"].definition()
    assert "definition" not in found["silver"]
    held = [
        Path(urlsplit(file).path)
        for file in orders.tables.read(orders.spark, "totals").inputFiles()
    ]
    assert (totals["files"], totals["bytes"]) == (
        len(held),
        sum(file.stat().st_size for file in held),
    )
    with pytest.raises(
        PipelineError, match=r"there is no table .*nothing: there are bronze, silver,"
    ):
        list(describe(orders.spark, orders.settings, orders.tables, "nothing"))
