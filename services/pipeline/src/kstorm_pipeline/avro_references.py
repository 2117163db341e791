"""Inlines the referenced schemas of an Avro schema, since Spark takes a single text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kstorm_pipeline.registry import Schema

_NAMED = ("record", "error", "enum", "fixed")


def inlined(schema: Schema) -> str:
    """Return the schema's text, with referenced types inserted where they are first used."""
    if not schema.references:
        return schema.text
    known: dict[str, dict[str, Any]] = {}
    for each in schema.references.values():
        _Names(known, defines=True).take(json.loads(each.text), "")
    return json.dumps(_Names(known, defines=False).take(json.loads(schema.text), ""))


class _Names:
    """Walks through a schema and expands all names.

    With `defines` it collects the types. Otherwise it inserts the types that are only named.
    """

    def __init__(self, known: dict[str, dict[str, Any]], *, defines: bool) -> None:
        self._known, self._defines = known, defines
        self._there: set[str] = set()

    def take(self, node: Any, space: str) -> Any:
        """Return the converted schema. `space` is the enclosing namespace."""
        if isinstance(node, str):
            return self._named(node, space)
        if isinstance(node, list):
            return [self.take(each, space) for each in node]
        if node["type"] not in _NAMED:
            inner = [name for name in ("type", "items", "values") if name in node]
            return {**node, **{name: self.take(node[name], space) for name in inner}}
        name = _full(node["name"], node.get("namespace", space))
        if name in self._there:
            return name
        self._there.add(name)
        space = name.rpartition(".")[0]
        made = {**node, "name": name.rpartition(".")[2], "namespace": space}
        if "fields" in node:
            made["fields"] = [
                {**each, "type": self.take(each["type"], space)} for each in node["fields"]
            ]
        if self._defines:
            self._known[name] = made
        return made

    def _named(self, name: str, space: str) -> Any:
        for full in (_full(name, space), name):
            if full in self._there:
                return full
            if full in self._known:
                return full if self._defines else self.take(self._known[full], "")
        return name


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"
