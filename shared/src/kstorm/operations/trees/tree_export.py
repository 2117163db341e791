"""Export a tree as JSON and as a Graphviz graph."""

from collections.abc import Iterator
from typing import Any

import msgspec

from kstorm.operations.trees.open_edges import open_edges
from kstorm.operations.trees.tree import Tree, TreeTuple
from kstorm.operations.trees.waterfall import ack_times
from kstorm.texts import graphviz


def to_json(tree: Tree, values: bool) -> dict[str, Any]:
    """Return everything known about a tree, with ids as 16 hex digits.

    `values` includes the tuples' values.
    """
    waiting = open_edges(tree)
    acked = ack_times(tree)
    return {
        "root": _id(tree.root),
        "outcome": tree.outcome,
        "origin": tree.origin and tree.origin._asdict(),
        "begun": tree.begun,
        "ended": tree.ended,
        "proof": {
            "complete": tree.proof.closed is not None,
            "residual": _id(tree.proof.residual),
            "acks": tree.proof.acks,
            "in_order": tree.proof.in_order,
        },
        "waits_for": {
            name: [_id(edge) for edge in getattr(waiting, name)]
            for name in ("unacked", "twice", "doubtful", "strange", "among")
        },
        "tuples": [
            _tuple_json(tuple, acked.get(edge), values) for edge, tuple in tree.tuples.items()
        ],
        "news": [
            {
                "kind": one.kind,
                "at": one.place.timestamp,
                "offset": one.place.offset,
                "by": one.by,
                "note": one.note and msgspec.to_builtins(msgspec.structs.asdict(one.note)),
            }
            for one in tree.news
        ],
        "endings": [{"kind": ending.kind, "at": ending.place.timestamp} for ending in tree.endings],
    }


def _tuple_json(tuple: TreeTuple, acked: int | None, values: bool) -> dict[str, Any]:
    seen = tuple.first
    return {
        "edge": _id(tuple.edge),
        "parents": [_id(parent) for parent in tuple.parents],
        "exact": tuple.exact,
        "from": seen.source,
        "from_task": seen.source_task,
        "to": seen.target,
        "to_task": seen.target_task,
        "stream": seen.stream,
        "topic": seen.place.topic,
        "partition": seen.place.partition,
        "offset": seen.place.offset,
        "row": seen.row,
        "sent": seen.place.timestamp,
        "acked": acked,
        "by": seen.by,
        **({"values": [_plain(value) for value in seen.values]} if values else {}),
    }


def to_dot(tree: Tree) -> Iterator[str]:
    """Yield the lines of a Graphviz graph. Dashed edges are guesses."""
    yield "digraph tree {"
    yield "  rankdir=LR; node [shape=box, style=rounded];"
    named = {0: "spout"}
    for edge, tuple in tree.tuples.items():
        named[edge] = f"t{edge:016x}"
        seen = tuple.first
        yield f"  {named[edge]} [label={graphviz(f'{seen.target}:{seen.target_task}')}];"
    for edge, tuple in tree.tuples.items():
        style = "" if tuple.exact else " [style=dashed]"
        for parent in tuple.parents or (0,):
            yield f"  {named[parent]} -> {named[edge]}{style};"
    yield "}"


def _id(number: int) -> str:
    return f"{number:016x}"


def _plain(value: Any) -> Any:
    """Return a value as JSON types, or its `repr` if JSON cannot represent it."""
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError):
        return repr(value)
