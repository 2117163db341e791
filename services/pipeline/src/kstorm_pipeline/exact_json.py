"""Reads one JSON text by the rule that every value fits its column exactly.

Spark's parsers convert: they cut off text, round, and complete a time of day with today's date. So
the pipeline reads JSON here, in Spark's Python workers. Spark sends this module to them by value
(`exact_types`), because the workers of some masters don't have the package. It imports only the
standard library and `exact_values`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kstorm_pipeline.exact_values import (
    MisfitError,
    Number,
    is_bigint,
    is_of,
    maker,
    shortened,
    variant_of,
)

Field = tuple[str, bool, tuple[Any, ...], str]
"""The name in JSON, whether it may be null, the type for `maker`, and the type in SQL."""

LEVELS = 500
"""The deepest nesting. Spark's parser ends at 1,000 levels, and Python's depends on its stack."""
_LEVELS_SHOWN = 5
_LONGEST_TYPE = 200
_SHORT = 10_000
_UNUSUAL = re.compile(r"\\u|[0-9.]{16}|[0-9][eE]")
"""Matches in every short text with a value that a VARIANT cannot hold."""
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_WORDS = {
    "string": "a string",
    "whole": "a whole number of 64 bits",
    "millis": "a whole number of 64 bits",
    "decimal": "a number",
    "float": "a number",
    "double": "a number",
    "boolean": "true or false",
    "timestamp": "a time as text",
    "timestamp_ntz": "a time as text",
    "date": "a date as text",
    "binary": "base64 as text",
    "struct": "an object",
    "map": "an object",
    "array": "a list",
    "variant": "a value",
}
"""The JSON that a column type accepts, in words."""


def reader_of(
    fields: tuple[Field, ...],
) -> Callable[[bytes | None], tuple[str | None, tuple[Any, ...] | None]]:
    """Return a function that reads an object. It returns the reason if the object is unreadable,
    and its columns otherwise."""
    made: list[Reader] = []

    def read(value: bytes | None) -> tuple[str | None, tuple[Any, ...] | None]:
        if not made:  # made in the worker, because a JSON decoder cannot be pickled
            made.append(Reader(fields))
        return made[0].read(value)

    return read


def examiner() -> Callable[[bytes | None], tuple[bool, str | None]]:
    """Return a function that returns True if a value is exactly one JSON value, and a reason.

    The reason is given for JSON that a VARIANT cannot hold, and is None for text that is not JSON.
    """
    made: list[Parser] = []

    def examine(value: bytes | None) -> tuple[bool, str | None]:
        if not made:
            made.append(Parser())
        return _examine(made[0], value)

    return examine


class Parser:
    """Parses JSON as RFC 8259 defines it, with numbers as they are written."""

    def __init__(self) -> None:
        self.twice: list[str] = []
        """The keys that occur twice in an object of the last text."""
        self._decode = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_no_constant,
        ).decode

    def parse(self, text: str) -> Any:
        """Return the text's only value. Raises ValueError, also if it is nested too deeply."""
        if too_deep(text):
            raise ValueError(f"it is nested more than {LEVELS} levels deep")
        self.twice.clear()
        return self._decode(text)

    def why_twice(self) -> str | None:
        """Return the reason if an object of the last text has a key twice, or None."""
        if not self.twice:
            return None
        return f"the value is JSON that has the key {shortened(json.dumps(self.twice[0]))} twice"

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            self.twice.append(next(name for name in names if names.count(name) > 1))
        return found


class Reader:
    """Reads JSON objects into fields."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._parser = Parser()
        self._fields = [
            (name, nullable, kind[0], maker(kind), shown) for name, nullable, kind, shown in fields
        ]

    def read(self, value: bytes | None) -> tuple[str | None, tuple[Any, ...] | None]:
        """Return the reason if the value is unreadable, or else None and the columns."""
        if value is None:
            return "the value is null", None
        try:
            text = bytes(value).decode()
        except UnicodeDecodeError:
            return "the value is not UTF-8", None
        try:
            found = self._parser.parse(text)
        except ValueError:
            return "the value is not JSON", None
        if type(found) is not dict:
            return "the value is not a JSON object", None
        twice = self._parser.why_twice()
        return self._row(found) if twice is None else (twice, None)

    def _row(self, found: dict[str, Any]) -> Any:
        row: list[Any] = []
        for name, nullable, kind, make, shown in self._fields:
            part = found.get(name)
            if part is None and not nullable:
                return _no_null(name, kind, there=name in found), None
            if part is None and not (kind == "variant" and name in found):
                row.append(None)
                continue
            if not is_of(part, kind):
                return f"field {name} is not {_WORDS[kind]} but {type_of(part)}", None
            try:
                row.append(make(part))
            except MisfitError:
                return _misfit(name, kind, shown, part), None
        return None, tuple(row)


def _examine(parser: Parser, value: bytes | None) -> tuple[bool, str | None]:
    try:
        text = "" if value is None else bytes(value).decode()
        found = parser.parse(text)
    except ValueError:
        return False, None
    reason = parser.why_twice()
    try:
        if reason is None and (len(text) > _SHORT or _UNUSUAL.search(text)):
            variant_of(found)
    except MisfitError as error:
        reason = f"the value is JSON that no VARIANT can hold: {error}"
    return True, reason


def too_deep(text: str) -> bool:
    """Return True if brackets outside of strings are nested more than `LEVELS` levels deep."""
    if text.count("[") + text.count("{") <= LEVELS:
        return False
    depth = 0
    for found in _BRACKETS.finditer(text):
        if found[0] in ("[", "{"):
            depth += 1
            if depth > LEVELS:
                return True
        elif found[0] in ("]", "}"):
            depth -= 1
    return False


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_null(name: str, kind: str, *, there: bool) -> str:
    return f"field {name} is not {_WORDS[kind]} but VOID" if there else f"field {name} is missing"


def _misfit(name: str, kind: str, shown: str, value: Any) -> str:
    if kind == "millis":
        return f"field {name} is not a time in milliseconds between the years 1970 and 9999"
    return f"field {name} does not fit {shown}: {type_of(value)}"


def type_of(value: Any) -> str:
    """Return the type of a JSON value in the words of Spark's `schema_of_variant`."""
    found = _type_of(value, _LEVELS_SHOWN).encode(errors="replace").decode()
    return found if len(found) <= _LONGEST_TYPE else found[:_LONGEST_TYPE] + "…"


def _type_of(value: Any, levels: int) -> str:
    if value is None:
        return "VOID"
    if type(value) is bool:
        return "BOOLEAN"
    if type(value) is Number:
        return _type_of_number(value)
    if isinstance(value, str):
        return "STRING"
    if not levels:
        return "…"
    if isinstance(value, dict):
        parts = [f"{name}: {_type_of(value[name], levels - 1)}" for name in sorted(value)]
        return f"OBJECT<{', '.join(parts)}>"
    found = {_type_of(part, levels - 1) for part in value} - {"VOID"}
    return f"ARRAY<{'VOID' if not found else found.pop() if len(found) == 1 else 'VARIANT'}>"


def _type_of_number(text: str) -> str:
    if len(text) > 400 or "e" in text or "E" in text:
        return "DOUBLE"
    if is_bigint(text):
        return "BIGINT"
    digits, exponent = Decimal(text).as_tuple()[1:]
    scale = -int(exponent)
    precision = max(len(digits), scale)
    return "DOUBLE" if precision > 38 else f"DECIMAL({precision},{scale})"
