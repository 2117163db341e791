"""A tree as a page shows it: its rows, each with a bar for when it was sent and acked."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kstorm.inspect.drawing import headline, name_of, said_of
from kstorm.inspect.outline import Outline
from kstorm.inspect.tree import Tree
from kstorm.inspect.waterfall import Row, waterfall

BAR: Final = 240
"""How wide a bar may be, in pixels."""
_MOST_ROWS: Final = 200
_DEEPEST: Final = 9
_THINNEST: Final = 2


class ShownRow(msgspec.Struct, frozen=True):
    """One row."""

    row: Row
    name: str
    """`split:5`."""
    indent: int
    """How far it stands to the right, 0 to 9."""
    x: int
    """Where the bar begins, in pixels from 0 to `BAR`."""
    width: int
    """Of the bar."""
    said: str


class ShownTree(msgspec.Struct, frozen=True):
    """A tree."""

    attempt: int
    headline: str
    outcome: str
    """`acked`, `failed` or `open`."""
    rows: Sequence[ShownRow]
    left: int
    """Rows that are not shown."""


def shown_tree(tree: Tree, topology: Outline, now: int, *, values: bool) -> ShownTree:
    """Up to 200 rows. An open tree reaches up to `now`, Unix time in ms. `values`: with what tuples hold."""
    rows = list(waterfall(tree))
    until = now if tree.outcome == "open" else tree.ended or 0
    length = max([1, *(row.end or row.start for row in rows), until - tree.begun])
    shown = [_shown(row, topology, length, values) for row in rows[:_MOST_ROWS]]
    left = len(rows) - len(shown)
    return ShownTree(tree.attempt, headline(tree, topology), tree.outcome, shown, left)


def _shown(row: Row, topology: Outline, length: int, values: bool) -> ShownRow:
    x = min(BAR - _THINNEST, row.start * BAR // length)
    end = BAR if row.end is None else row.end * BAR // length
    width = min(BAR - x, max(_THINNEST, end - x))
    said = [*(["critical path"] if row.critical else []), *filter(None, said_of(row, values))]
    return ShownRow(
        row, name_of(row, topology), min(row.depth, _DEEPEST), x, width, ", ".join(said)
    )
