"""Trees as the pages show them."""

from kstorm.introspection.outline_builder import outline_of
from kstorm.testing import FeederSpout
from kstorm_ui.tree_rows import BAR, shown_tree
from tests.unit.operations.rebuilding import End, Forgets, topology
from tests.unit.operations.test_verdict import tree_of

_SHAPE = outline_of(topology(FeederSpout("sentence"), End()))


def test_bar_fits_its_column() -> None:
    """However short it is. The critical path is also in words."""
    found = shown_tree(tree_of(End()), _SHAPE, 0, values=False)
    assert [row.name.partition(":")[0] for row in found.rows] == [
        "feeder",
        "split",
        "count",
        "count",
    ]
    assert [row.indent for row in found.rows] == [0, 1, 2, 2]
    assert all(row.x >= 0 and row.width >= 2 and row.x + row.width <= BAR for row in found.rows)
    assert [row.said.startswith("critical path") for row in found.rows] == [
        row.row.critical for row in found.rows
    ]
    assert any(row.row.critical for row in found.rows)


def test_bar_of_an_unacked_tuple_extends_to_the_end() -> None:
    found = shown_tree(tree_of(Forgets()), _SHAPE, 0, values=True)
    (held,) = (row for row in found.rows if row.row.depth == 2 and row.row.end is None)
    assert held.x + held.width == BAR
    assert "not acked: the tree waits for it" in held.said
    assert "moon" in held.said
    assert "moon" not in "".join(
        row.said for row in shown_tree(tree_of(Forgets()), _SHAPE, 0, values=False).rows
    )


def test_open_tree_grows_over_time() -> None:
    """So bars of acked tuples shrink. A complete tree does not change."""
    for bolt, waits in ((Forgets(), True), (End(), False)):
        tree = tree_of(bolt)
        soon, late = (
            shown_tree(tree, _SHAPE, tree.begun + after, values=False) for after in (1, 1_000_000)
        )
        widths = [
            sum(row.width for row in found.rows if row.row.end is not None)
            for found in (soon, late)
        ]
        assert (widths[1] <= widths[0], soon.rows == late.rows) == (True, not waits)
