"""What to step over in Avro of one schema, and how much a record of it may hold at most for each of its bytes.

Avro's bytes do not tell what they are: that is in the schema. So it is translated once, into steps that a walk can follow quickly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Any, Final, NamedTuple

MOST_DECIMAL_BYTES: Final = 1024
"""Most bytes of a decimal, for 2,466 digits. To make one of a text of digits takes time that grows with the square of its length:
2 s for 64 kB."""
MOST_LEVELS: Final = 200
"""Most records, arrays and maps within each other. Avro's decoder has no limit of its own: within a few thousand it
overruns the stack, and the process dies."""
USUAL_VALUES: Final = 3
"""A byte may stand for so many values, and the schema is still an ordinary one: a record, its field's name, and a number there."""


class Step(IntEnum):
    """How a value is stepped over."""

    FIXED = 0
    """By its length, which the schema tells."""
    NUMBER = 1
    """A number of as many bytes as it needs: int, long, enum."""
    BYTES = 2
    """By its length, which is before it: bytes, string."""
    DECIMAL = 3
    """The same, and the length has a limit."""
    UNION = 4
    """By the branch whose number is before it."""
    RECORD = 5
    """Field by field."""
    ARRAY = 6
    """Item by item, in blocks that begin with their number."""
    MAP = 7
    """The same; each item has a key."""


Op = tuple[Step, Any]
"""A step, and what it needs: a length, a union's branches (a tuple of ops), or a `Body`."""


@dataclass(slots=True, eq=False)
class Body:
    """What is in a record, or in each item of an array or a map."""

    values: int
    """How many values it holds, but for those in unions, arrays, maps, and records within it; their places count."""
    ops: list[Op] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plan:
    """A schema, ready for walks."""

    op: Op
    """How to step over all."""
    excess: float
    """A record of n bytes has at most `excess + USUAL_VALUES * n` values; infinite if that is not sure, or it may be deep."""
    decimals: bool
    """Whether there are decimals that may be too long."""

    def harmless(self, most: int) -> float:
        """Up to how many bytes a record has at most so many values, and nothing else that is refused; negative: of no length."""
        return min(
            (most - self.excess) / USUAL_VALUES, MOST_DECIMAL_BYTES if self.decimals else inf
        )


def plan_of(schema: Any) -> Plan:
    """The plan of a schema that fastavro has parsed. Raises `ValueError` for decimals that are too long."""
    compiler = _Compiler()
    op = compiler.op(schema)
    return Plan(op, _excess_of(op, compiler.bodies), compiler.decimals)


class _Compiler:
    def __init__(self) -> None:
        self.bodies: list[Body] = []
        self.decimals = False
        self._named: dict[str, Op] = {}

    def op(self, schema: Any) -> Op:
        if isinstance(schema, list):
            return (Step.UNION, tuple(map(self.op, schema)))
        kind = schema["type"] if isinstance(schema, dict) else schema
        if not isinstance(kind, str):
            return self.op(kind)
        if kind == "bytes" and _is_decimal(schema):
            self.decimals = True
            return (Step.DECIMAL, None)
        if found := _PRIMITIVES.get(kind):
            return found
        match kind:
            case "array":
                return (Step.ARRAY, self._items(schema["items"], 1))
            case "map":
                return (Step.MAP, self._items(schema["values"], 2))
            case "enum":
                op: Op = (Step.NUMBER, None)
            case "fixed":
                op = (Step.FIXED, _fixed_size(schema))
            case "record" | "error":
                return self._record(schema)
            case _:
                return self._named[kind]  # the first time that it is named, it is written out
        self._named[schema["name"]] = op
        return op

    def _record(self, schema: Any) -> Op:
        """Each field is a name and a value. One that has itself in it is found by its name before it is done."""
        body = self._body(2 * len(schema["fields"]))
        op = self._named[schema["name"]] = (Step.RECORD, body)
        body.ops += _joined([self.op(each["type"]) for each in schema["fields"]])
        return op

    def _items(self, schema: Any, values: int) -> Body:
        body = self._body(values)
        body.ops += [_KEY] * (values - 1) + _joined([self.op(schema)])
        return body

    def _body(self, values: int) -> Body:
        self.bodies.append(Body(values))
        return self.bodies[-1]


def _joined(ops: list[Op]) -> list[Op]:
    """With one step for neighbours whose lengths are known, and none for what takes no bytes."""
    joined: list[Op] = []
    for step, what in ops:
        if step is Step.FIXED and joined and joined[-1][0] is Step.FIXED:
            joined[-1] = (step, joined[-1][1] + what)
        elif step is not Step.FIXED or what:
            joined.append((step, what))
    return joined


def _is_decimal(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("logicalType") == "decimal"


def _fixed_size(schema: Any) -> int:
    size: int = schema["size"]
    if size < 0 or (_is_decimal(schema) and size > MOST_DECIMAL_BYTES):
        raise ValueError(
            f"its schema has a fixed {schema['name']!r} of {size:,} bytes, for a decimal 1,024 at most"
        )
    return size


_KEY: Final[Op] = (Step.BYTES, None)
_PRIMITIVES: Final[dict[str, Op]] = {
    "null": (Step.FIXED, 0),
    "boolean": (Step.FIXED, 1),
    "float": (Step.FIXED, 4),
    "double": (Step.FIXED, 8),
    "int": (Step.NUMBER, None),
    "long": (Step.NUMBER, None),
    "string": (Step.BYTES, None),
    "bytes": (Step.BYTES, None),
}


def _excess_of(root: Op, bodies: list[Body]) -> float:
    """How many values a record may hold beyond `USUAL_VALUES` for each byte.

    Bodies are in each other, so it is computed in rounds, each one level deeper. What still changes after `MOST_LEVELS` is too
    deep, or in itself.
    """
    known = dict.fromkeys(bodies, _Known(-inf, 0))
    for _ in range(MOST_LEVELS):
        found = {body: _known(body, known) for body in bodies}
        if found == known:
            return 1 + _excess(root, known)
        known = found
    return inf


class _Known(NamedTuple):
    """Of a body, as far as it is known."""

    excess: float
    """How many values it holds at most beyond `USUAL_VALUES` for each byte."""
    levels: int
    """How many bodies are within each other there."""


def _known(body: Body, known: dict[Body, _Known]) -> _Known:
    within = [known[each].levels for op in body.ops for each in _bodies(op)]
    return _Known(
        body.values + sum(_excess(op, known) for op in body.ops), 1 + max(within, default=0)
    )


def _bodies(op: Op) -> Iterator[Body]:
    step, what = op
    if step is Step.UNION:
        for branch in what:
            yield from _bodies(branch)
    elif step in (Step.RECORD, Step.ARRAY, Step.MAP):
        yield what


def _excess(op: Op, known: dict[Body, _Known]) -> float:
    step, what = op
    match step:
        case Step.FIXED:
            return -USUAL_VALUES * float(what)
        case Step.UNION:
            return max((_excess(branch, known) for branch in what), default=0) - USUAL_VALUES
        case Step.RECORD:
            return known[what].excess
        case (
            Step.ARRAY | Step.MAP
        ):  # one byte ends it, and of items that hold more than usual there may be any number
            return inf if known[what].excess > 0 else -USUAL_VALUES
        case _:
            return -USUAL_VALUES
