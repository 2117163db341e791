"""docs/reference/metrics.md lists exactly the metrics that a service exports, with type, labels and meaning."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from kstorm_pipeline.monitor.metrics import Metrics

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "shared" / "src" / "kstorm"
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()


class Metric(NamedTuple):
    kind: str
    labels: frozenset[str]
    meaning: str


@cache
def shown() -> dict[str, Metric]:
    """Return the metrics of the code: the samples that it yields, and the histograms that it adds."""
    found: dict[str, Metric] = {}
    for file in sorted((SOURCES / "runtime").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            found.update(samples(node))
            found.update(histograms(node))
    return found | of_the_pipeline()


def of_the_pipeline() -> dict[str, Metric]:
    """Return the metrics of a pipeline run, from Prometheus' client."""
    metrics = Metrics()
    found = {}
    for each in metrics.registry.collect():
        (labels,) = [
            one._labelnames
            for one in vars(metrics).values()
            if getattr(one, "_name", "") == each.name
        ]
        name = each.name.removeprefix("kstorm_") + ("_total" if each.type == "counter" else "")
        found[name] = Metric(each.type, frozenset(labels), each.documentation)
    return found


def samples(node: ast.AST) -> Iterator[tuple[str, Metric]]:
    """Find `yield "name", "meaning", value, {"label": …}`."""
    if not (
        isinstance(node, ast.Yield)
        and isinstance(node.value, ast.Tuple)
        and len(node.value.elts) == 4
    ):
        return
    name, meaning, _, labels = node.value.elts
    if isinstance(labels, ast.Dict):
        kind = "counter" if text(name).endswith("_total") else "gauge"
        yield (
            text(name),
            Metric(
                kind, frozenset(text(key) for key in labels.keys if key is not None), text(meaning)
            ),
        )


def histograms(node: ast.AST) -> Iterator[tuple[str, Metric]]:
    """Find `….add_latency("name", "meaning", latency)`."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_latency"
    ):
        name, meaning, _ = node.args
        yield text(name), Metric("histogram", frozenset(), text(meaning))


def text(node: ast.expr) -> str:
    """Return a string, with its placeholders in angle brackets."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text, node.values))
    if isinstance(node, ast.FormattedValue):
        return f"<{ast.unparse(node.value)}>"
    assert isinstance(node, ast.Constant), (
        f"{ast.unparse(node)} is no string: write the names of metrics out"
    )
    return str(node.value)


def documented() -> dict[str, Metric]:
    """Return the rows of the page's metric tables."""
    rows = re.findall(r"(?m)^\| `kstorm_(\S+)` \| (\w+) \| (.*?) ?\| (.*) \|$", PAGE)
    return {
        name: Metric(kind, frozenset(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, labels, meaning in rows
    }


def test_metrics_of_the_code_are_found() -> None:
    """Otherwise an empty page would pass."""
    assert len(shown()) > 25
    assert shown()["spout_failed_total"] == Metric("counter", frozenset({"reason"}), "Trees failed")


def test_page_lists_exactly_the_metrics_of_the_code() -> None:
    assert sorted(documented()) == sorted(shown())


@pytest.mark.parametrize("name", sorted(shown()))
def test_type_labels_and_meaning_match_the_code(name: str) -> None:
    """The page may add to the meaning, after the text of the code."""
    told, true = documented()[name], shown()[name]
    assert (told.kind, told.labels) == (true.kind, true.labels)
    assert re.match(rf"{re.escape(true.meaning)}\b", told.meaning), (
        f"{told.meaning!r} does not begin with {true.meaning!r}"
    )


@pytest.mark.parametrize("file", ["kafka/partition_metrics.py", "kafka/bolt.py", "queues/spout.py"])
def test_metrics_of_built_in_spouts_and_bolts(file: str) -> None:
    """A table of names on the page has the keys that their `metrics` returns."""
    module = ast.parse((SOURCES / file).read_text())
    (counted,) = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name == "metrics"
    ]
    names = {
        text(key)
        for node in ast.walk(counted)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if key is not None
    }
    tables = re.findall(r"(?m)^\| name \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE)
    assert names
    assert names in [set(re.findall(r"(?m)^\| `(\w+)`", table)) for table in tables]
