"""The page of the chart's values."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tools.docs.tables import code, page, table

CHART: Final = Path(__file__).resolve().parents[2] / "helm" / "kstorm"
_KEY: Final = re.compile(r"( *)([\w.-]+):(?: |$)")
_ABSENT: Final = object()

_Row = tuple[str, str, str, str]


def chart_page() -> str:
    text = (CHART / "values.yaml").read_text()
    values = yaml.safe_load(text)
    schema = json.loads((CHART / "values.schema.json").read_text())
    single: list[_Row] = []
    sections: dict[str, list[_Row]] = {}
    for path, comment in _commented(text):
        value = _at(values, path)
        if value is _ABSENT:  # an example within a comment or a list
            continue
        whole = isinstance(value, dict) and bool(value)
        shown = "" if whole else code(json.dumps(value))
        row = (code(".".join(path)), _kind(schema, path, value), shown, comment)
        if len(path) == 1 and not whole:
            single.append(row)
        else:
            sections.setdefault(path[0], []).append(row)
    parts = [_table(single)]
    for name, rows in sections.items():
        parts += [f"## {name}", _table(rows)]
    return page(
        "Values of the Helm chart",
        "[The Kubernetes page](../guides/kubernetes.md) explains how to use them. The chart refuses\n"
        "misspelt names and contradictory values before it installs anything.",
        *parts,
    )


def _table(rows: Iterable[_Row]) -> str:
    return table(["value", "type", "default", "effect"], rows)


def _commented(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each key, and the comment above it."""
    stack: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            comment.append(line.lstrip(" #"))
            continue
        found = _KEY.match(line)
        if found:
            indent, name = len(found[1]), found[2]
            stack = [(depth, key) for depth, key in stack if depth < indent] + [(indent, name)]
            yield tuple(key for _, key in stack), " ".join(comment)
        comment = []


def _at(values: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(values, Mapping) or key not in values:
            return _ABSENT
        values = values[key]
    return values


def _kind(schema: Mapping[str, Any], path: tuple[str, ...], value: object) -> str:
    """Return the type that the schema allows, or else that of the default."""
    found: Any = schema
    for key in path:
        while isinstance(found, dict) and "$ref" in found:
            found = _at(schema, tuple(found["$ref"].removeprefix("#/").split("/")))
        found = found.get("properties", {}).get(key, {}) if isinstance(found, dict) else {}
    kind = found.get("type") if isinstance(found, dict) else None
    if found and "enum" in found:
        return " or ".join(code(json.dumps(each)) for each in found["enum"])
    if kind is None:
        kind = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}.get(
            type(value), ""
        )
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
