"""Compiles an Avro schema into steps for a scan, with its maximum values per byte.

Avro data cannot be read without its schema. So the schema is compiled once into steps that a scan
can follow quickly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Any, Final, NamedTuple

MOST_DECIMAL_BYTES: Final = 1024
"""Maximum bytes of a decimal, enough for 2,466 digits. Converting decimal digits takes time that
grows with the square of their number: 2 s for 64 kB."""
MOST_LEVELS: Final = 200
"""Maximum nesting of records, arrays and maps. Avro's decoder has no limit, so a few thousand
levels would overflow the stack and crash the process."""
USUAL_VALUES: Final = 3
"""Maximum values per byte of an ordinary schema: a record, its field's name, and a number."""


class SkipStep(IntEnum):
    """The way to skip a value."""

    FIXED = 0
    """Skip the number of bytes that the schema defines."""
    NUMBER = 1
    """Skip a varint: int, long, enum."""
    BYTES = 2
    """Skip the number of bytes that precedes the value: bytes, string."""
    DECIMAL = 3
    """Like `BYTES`, but with a maximum length."""
    UNION = 4
    """Skip the branch whose number precedes the value."""
    RECORD = 5
    """Skip all fields."""
    ARRAY = 6
    """Skip all items, in blocks that begin with their number of items."""
    MAP = 7
    """Like `ARRAY`, with a key for each item."""


Op = tuple[SkipStep, Any]
"""A step with its argument: a length, a union's branches (a tuple of ops), or a `BodyPlan`."""


@dataclass(slots=True, eq=False)
class BodyPlan:
    """The contents of a record, or of each item of an array or a map."""

    values: int
    """Number of values, without those nested in unions, arrays, maps and records. Each of these
    counts as one."""
    ops: list[Op] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AvroScanPlan:
    """A schema compiled for scans."""

    op: Op
    """The step for the whole record."""
    excess: float
    """A record of n bytes has at most `excess + USUAL_VALUES * n` values. It is infinite if there
    is no such limit, or if the record may be nested deeply."""
    decimals: bool
    """True if there are decimals that may be too long."""

    def harmless(self, most: int) -> float:
        """Return the maximum length of a record that needs no scan. Negative if all need one."""
        return min(
            (most - self.excess) / USUAL_VALUES, MOST_DECIMAL_BYTES if self.decimals else inf
        )


def plan_of(schema: Any) -> AvroScanPlan:
    """Compile a schema parsed by fastavro. Raises `ValueError` for decimals that are too long."""
    compiler = _SchemaCompiler()
    op = compiler.op(schema)
    return AvroScanPlan(op, _excess_of(op, compiler.bodies), compiler.decimals)


class _SchemaCompiler:
    def __init__(self) -> None:
        self.bodies: list[BodyPlan] = []
        self.decimals = False
        self._named: dict[str, Op] = {}

    def op(self, schema: Any) -> Op:
        if isinstance(schema, list):
            return (SkipStep.UNION, tuple(map(self.op, schema)))
        kind = schema["type"] if isinstance(schema, dict) else schema
        if not isinstance(kind, str):
            return self.op(kind)
        if kind == "bytes" and _is_decimal(schema):
            self.decimals = True
            return (SkipStep.DECIMAL, None)
        if found := _PRIMITIVES.get(kind):
            return found
        match kind:
            case "array":
                return (SkipStep.ARRAY, self._items(schema["items"], 1))
            case "map":
                return (SkipStep.MAP, self._items(schema["values"], 2))
            case "enum":
                op: Op = (SkipStep.NUMBER, None)
            case "fixed":
                op = (SkipStep.FIXED, _fixed_size(schema))
            case "record" | "error":
                return self._record(schema)
            case _:
                # The first occurrence of a named type contains its definition.
                return self._named[kind]
        self._named[schema["name"]] = op
        return op

    def _record(self, schema: Any) -> Op:
        """Compile a record, in which each field is a name and a value.

        The record is registered before its fields are compiled, because it may contain itself.
        """
        body = self._body(2 * len(schema["fields"]))
        op = self._named[schema["name"]] = (SkipStep.RECORD, body)
        body.ops += _joined([self.op(each["type"]) for each in schema["fields"]])
        return op

    def _items(self, schema: Any, values: int) -> BodyPlan:
        body = self._body(values)
        body.ops += [_KEY] * (values - 1) + _joined([self.op(schema)])
        return body

    def _body(self, values: int) -> BodyPlan:
        self.bodies.append(BodyPlan(values))
        return self.bodies[-1]


def _joined(ops: list[Op]) -> list[Op]:
    """Merge adjacent steps of fixed length, and drop steps of length 0."""
    joined: list[Op] = []
    for step, what in ops:
        if step is SkipStep.FIXED and joined and joined[-1][0] is SkipStep.FIXED:
            joined[-1] = (step, joined[-1][1] + what)
        elif step is not SkipStep.FIXED or what:
            joined.append((step, what))
    return joined


def _is_decimal(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("logicalType") == "decimal"


def _fixed_size(schema: Any) -> int:
    size: int = schema["size"]
    if size < 0 or (_is_decimal(schema) and size > MOST_DECIMAL_BYTES):
        raise ValueError(
            f"its schema has a fixed {schema['name']!r} of {size:,} bytes, but a decimal may have "
            "at most 1,024"
        )
    return size


_KEY: Final[Op] = (SkipStep.BYTES, None)
_PRIMITIVES: Final[dict[str, Op]] = {
    "null": (SkipStep.FIXED, 0),
    "boolean": (SkipStep.FIXED, 1),
    "float": (SkipStep.FIXED, 4),
    "double": (SkipStep.FIXED, 8),
    "int": (SkipStep.NUMBER, None),
    "long": (SkipStep.NUMBER, None),
    "string": (SkipStep.BYTES, None),
    "bytes": (SkipStep.BYTES, None),
}


def _excess_of(root: Op, bodies: list[BodyPlan]) -> float:
    """Return the maximum number of values beyond `USUAL_VALUES` per byte.

    Bodies are nested, so this is computed in rounds, each one level deeper. If the result still
    changes after `MOST_LEVELS` rounds, the schema is too deep or recursive.
    """
    known = dict.fromkeys(bodies, _Bounds(-inf, 0))
    for _ in range(MOST_LEVELS):
        found = {body: _known(body, known) for body in bodies}
        if found == known:
            return 1 + _excess(root, known)
        known = found
    return inf


class _Bounds(NamedTuple):
    """Intermediate result for a body."""

    excess: float
    """Maximum number of values beyond `USUAL_VALUES` per byte."""
    levels: int
    """Number of nested bodies."""


def _known(body: BodyPlan, known: dict[BodyPlan, _Bounds]) -> _Bounds:
    within = [known[each].levels for op in body.ops for each in _bodies(op)]
    return _Bounds(
        body.values + sum(_excess(op, known) for op in body.ops), 1 + max(within, default=0)
    )


def _bodies(op: Op) -> Iterator[BodyPlan]:
    step, what = op
    if step is SkipStep.UNION:
        for branch in what:
            yield from _bodies(branch)
    elif step in (SkipStep.RECORD, SkipStep.ARRAY, SkipStep.MAP):
        yield what


def _excess(op: Op, known: dict[BodyPlan, _Bounds]) -> float:
    step, what = op
    # One byte ends the array. If its items have more values than usual, any number of items may
    # follow.
    match step:
        case SkipStep.FIXED:
            return -USUAL_VALUES * float(what)
        case SkipStep.UNION:
            return max((_excess(branch, known) for branch in what), default=0) - USUAL_VALUES
        case SkipStep.RECORD:
            return known[what].excess
        case SkipStep.ARRAY | SkipStep.MAP:
            return inf if known[what].excess > 0 else -USUAL_VALUES
        case _:
            return -USUAL_VALUES
