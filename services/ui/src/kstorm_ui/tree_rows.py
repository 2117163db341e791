"""Tree of a message for a page. Each row has a bar from its send time to its ack time."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kstorm.introspection.outline import Outline
from kstorm.operations.trees.drawing import headline, name_of, remarks_of
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.waterfall import WaterfallRow, waterfall_of

BAR: Final = 240
"""Maximum width of a bar, in pixels."""
_MOST_ROWS: Final = 200
_DEEPEST: Final = 9
_THINNEST: Final = 2


class ShownRow(msgspec.Struct, frozen=True):
    row: WaterfallRow
    name: str
    """Component and task, such as `split:5`."""
    indent: int
    """Indentation level, 0 to 9."""
    x: int
    """Start of the bar, in pixels from 0 to `BAR`."""
    width: int
    """Width of the bar, in pixels."""
    said: str


class ShownTree(msgspec.Struct, frozen=True):
    attempt: int
    headline: str
    outcome: str
    """`acked`, `failed` or `open`."""
    rows: Sequence[ShownRow]
    left: int
    """Number of rows that are not shown."""


def shown_tree(tree: Tree, topology: Outline, now: int, *, values: bool) -> ShownTree:
    """Return up to 200 rows. An open tree extends to `now`, Unix time in ms. `values`: include
    tuple values."""
    rows = list(waterfall_of(tree))
    until = now if tree.outcome == "open" else tree.ended or 0
    length = max([1, *(row.end or row.start for row in rows), until - tree.begun])
    shown = [_shown(row, topology, length, values) for row in rows[:_MOST_ROWS]]
    left = len(rows) - len(shown)
    return ShownTree(tree.attempt, headline(tree, topology), tree.outcome, shown, left)


def _shown(row: WaterfallRow, topology: Outline, length: int, values: bool) -> ShownRow:
    x = min(BAR - _THINNEST, row.start * BAR // length)
    end = BAR if row.end is None else row.end * BAR // length
    width = min(BAR - x, max(_THINNEST, end - x))
    said = [*(["critical path"] if row.critical else []), *filter(None, remarks_of(row, values))]
    return ShownRow(
        row, name_of(row, topology), min(row.depth, _DEEPEST), x, width, ", ".join(said)
    )
