"""The JSON Schema of a topology's YAML file, for editors. It is derived from the model.

It differs from the model in one point: where a number is expected, it also allows the text
`${name}`, which is replaced later.
"""

import ast
import inspect
import json
from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any, Final, get_args

import msgspec

from kstorm.flux.model import TopologyDef
from kstorm.topology import Config

_KINDS: Final = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_REPLACED: Final = {"type": "string", "pattern": r"\$\{"}


def schema() -> dict[str, Any]:
    """Return the schema. `schema.json` contains the same."""
    found = msgspec.json.schema(TopologyDef)
    kinds = found["$defs"]
    for kind in kinds.values():
        if described := kind.get("description"):
            kind["description"] = inspect.cleandoc(described)  # Python 3.13 does this itself
    kinds["Settings"] = {
        "description": kinds["TopologyDef"]["properties"]["config"]["description"],
        "type": "object",
        "properties": _settings(),
    }
    for kind in ("TopologyDef", "VertexDef"):
        kinds[kind]["properties"]["config"] = {"$ref": "#/$defs/Settings"}
    for name in ("parallelism", "tasks"):
        _allow_replaced(kinds["VertexDef"]["properties"][name])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A kstorm topology",
        **found,
    }


def schema_text() -> str:
    """Return the schema as text, as printed by `kstorm flux-schema`."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _settings() -> dict[str, Any]:
    """Return the schema of kstorm's own settings, so that editors can suggest them."""
    described = _docstrings()
    found = {}
    for setting in fields(Config):
        if setting.name != "own":
            kinds = [_KINDS[kind] for kind in get_args(setting.type) or (setting.type,)]
            what = {"description": described[setting.name], "default": setting.default}
            found[setting.name] = {**what, "anyOf": [{"type": kinds}, _REPLACED]}
    return found


def _docstrings() -> Mapping[str, str]:
    """Return the docstrings of the fields of `Config`. Python does not keep them at run time."""
    (definition,) = ast.parse(inspect.getsource(Config)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        declared.target.id: " ".join(said.value.value.split())
        for declared, said in pairwise(definition.body)
        if isinstance(declared, ast.AnnAssign)
        and isinstance(declared.target, ast.Name)
        and isinstance(said, ast.Expr)
        and isinstance(said.value, ast.Constant)
        and isinstance(said.value.value, str)
    }


def _allow_replaced(what: dict[str, Any]) -> None:
    kind = {key: what.pop(key) for key in ("type", "minimum") if key in what}
    what["anyOf"] = [*([kind] if kind else []), *what.get("anyOf", []), _REPLACED]
