"""Draw a tree as text.

Each tuple is a row below its parent, with a bar from the time when it was sent to its ack.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kstorm.introspection.outline import Outline
from kstorm.operations.formatting import counted, duration, failure, utc_clock
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.joined import TupleLetter, except_for, of_roots
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.waterfall import WaterfallRow, waterfall_of

_BAR: Final = 24
_MOST_ROWS: Final = 200
_PLAIN, _CRITICAL = "▒", "█"
_MOST_VALUE: Final = 60


def draw(
    tree: Tree,
    topology: Outline,
    values: bool = False,
    everything: bool = False,
    letters: Sequence[TupleLetter] = (),
) -> Iterator[str]:
    """Yield the lines of a tree.

    `values` shows the tuples' values. `everything` gives each tuple its own row instead of grouping
    similar ones. `letters` are the dead letters of tuples.
    """
    yield headline(tree, topology, letters)
    rows = list(waterfall_of(tree, everything))
    length = max([1, *(row.end or row.start for row in rows), (tree.ended or 0) - tree.begun])
    labels = [_label(row, topology) for row in rows]
    width = max(map(len, labels), default=0)
    for label, row in list(zip(labels, rows, strict=True))[:_MOST_ROWS]:
        end = f"{'–':>6}   " if row.end is None else f"{row.end:>6,} ms"
        yield f"{label:<{width}}  {_bar(row, length)} {end}  {', '.join(remarks_of(row, values))}".rstrip()
    if len(rows) > _MOST_ROWS:
        yield f"… and {counted(len(rows) - _MOST_ROWS, 'more row')}: --json has all of them"
    if any(row.critical for row in rows):
        yield f"{_CRITICAL * 2} the critical path: the end of the tree waited for these"


def headline(tree: Tree, topology: Outline, letters: Sequence[TupleLetter] = ()) -> str:
    """Return a tree's message, outcome, duration and number of tuples in one line.

    `letters` are the dead letters of tuples.
    """
    own = of_roots(letters, [tree.root])
    without = f", {except_for(own)}" if own else ""
    origin = tree.origin
    about = f"{MessageId(*origin[:3])} attempt {origin.attempt}, " if origin else ""
    took = f" in {duration(tree.ended - tree.begun)}" if tree.ended is not None else ""
    began = f", begun {utc_clock(tree.begun)}" if tree.begun else ""
    return (
        f"{about}root {tree.root:016x}{began}: {outcome(tree, topology)}{without}{took}, "
        f"{counted(len(tree.tuples), 'tuple')}"
    )


def outcome(tree: Tree, topology: Outline) -> str:
    """`✓ complete, proven (init ⊕ 7 acks = 0)`, `✗ failed by split:5: …`, `… open`."""
    proof = tree.proof
    if proof.closed is not None:
        some = "" if proof.in_order else "some of its "
        return f"✓ complete, proven (init ⊕ {some}{counted(proof.acks, 'ack')} = 0)"
    if proof.failed is not None:
        note = tree.note
        return (
            "✗ failed" if note is None else f"✗ failed{failure(note, topology.name_of(note.task))}"
        )
    if any(ending.kind == "acked" for ending in tree.endings):
        return "✓ acked, but without proof: some of its records are gone"
    return "… open" if proof.begun else "… not received by its acker"


def _label(row: WaterfallRow, topology: Outline) -> str:
    return f"{'  ' * row.depth}{name_of(row, topology)}"


def name_of(row: WaterfallRow, topology: Outline) -> str:
    """Return `split:5`, or `count ×8` for grouped tuples."""
    if not row.depth:
        return topology.name_of(row.task or 0)
    return f"{row.component}{f' ×{row.count}' if row.task is None else f':{row.task}'}"


def remarks_of(row: WaterfallRow, values: bool) -> Iterator[str]:
    """Yield a row's details except its times. `values` includes the tuple's values."""
    if row.mark:
        yield row.mark
    if not row.depth:
        yield row.by
    elif row.by:
        yield f"{row.by} worked {duration(row.worked)}"
    if row.task is None:
        yield f"at {counted(row.tasks, 'task')}"
    if row.place is not None:
        yield f"{row.place.topic}/{row.place.partition}/{row.place.offset} row {row.row}"
    if row.parents > 1:
        yield f"one of {row.parents} parents"
    if row.sent > 1:
        yield f"sent {row.sent} times"
    if row.stream != "default":
        yield f"stream {row.stream}"
    if values and row.place is not None:
        yield shown_values(row.values)


def shown_values(values: Sequence[Any]) -> str:
    """Return a tuple's values as Python literals, so that control characters are escaped."""
    cut = (repr(value)[: _MOST_VALUE + 1] for value in values)
    return f"[{', '.join(text if len(text) <= _MOST_VALUE else f'{text[:_MOST_VALUE]}…' for text in cut)}]"


def _bar(row: WaterfallRow, length: int) -> str:
    """Draw the time from send to ack. If no ack is known, the bar is open to the right."""
    first = min(_BAR - 1, row.start * _BAR // length)
    if row.end is None:
        return f"{' ' * first}▏{'·' * (_BAR - first - 1)}"
    last = max(first + 1, min(_BAR, -(-row.end * _BAR // length)))
    return f"{' ' * first}{(_CRITICAL if row.critical else _PLAIN) * (last - first)}{' ' * (_BAR - last)}"
