"""Trees as text, as JSON, and as graphs."""

import json
from typing import Any

import msgspec

from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.trees.drawing import draw
from kstorm.operations.trees.tree_export import to_dot, to_json
from kstorm.operations.trees.waterfall import critical_path
from kstorm.testing import FeederSpout
from kstorm.topology import BasicBolt, BasicOutputCollector, Tuple
from tests.unit.operations.rebuilding import End, Forgets, HoldsAndSends, topology, trees

SHAPE = outline_of(topology(FeederSpout("sentence"), HoldsAndSends(), third=True))


class Raises(BasicBolt):
    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        raise ValueError("\x1b[2Jno such word")


def test_a_complete_tree() -> None:
    """The first line has the proof. The other rows show each tuple below its anchor."""
    (tree,) = trees(["the cow"], HoldsAndSends(), third=True)
    first, *rows = draw(tree, SHAPE)
    assert "✓ complete, proven (init ⊕ " in first
    assert "5 tuples" in first
    labels = [row.split()[0] for row in rows]
    assert labels[:2] == ["feeder:1", "split:5"]
    depths = [len(row) - len(row.lstrip()) for row in rows[1:6]]
    assert sorted(depths) == [2, 4, 4, 6, 6]
    assert rows[-1].startswith("██ the critical path")


def test_unacked_tuple_of_an_open_tree_is_marked() -> None:
    """Values are shown only on request."""
    (tree,) = trees(["the moon"], Forgets())
    text = "\n".join(draw(tree, SHAPE))
    assert "… open" in text
    (marked,) = (row for row in text.splitlines() if "◆" in row)
    assert "count:" in marked
    assert "moon" not in text
    assert "['moon']" in "\n".join(draw(tree, SHAPE, values=True))


def test_failure_shows_task_and_error() -> None:
    """The caller escapes the texts of users when it prints them."""
    (tree,) = trees(["word"], Raises())
    first, *rows = draw(tree, SHAPE)
    assert "✗ failed by count:" in first
    assert "no such word" in first
    assert sum("✗ failed the tree" in row for row in rows) == 1


def test_similar_tuples_are_one_row() -> None:
    """Marked tuples and those with children have their own rows."""
    words = " ".join(["moon", *(f"w{n}" for n in range(30))])
    (tree,) = trees([words], Forgets())
    few = list(draw(tree, SHAPE))
    assert any("count ×30" in row for row in few)
    assert sum("◆" in row for row in few) == 1
    assert len(list(draw(tree, SHAPE, everything=True))) == len(few) + 29


def test_values_are_escaped_and_cut() -> None:
    (tree,) = trees(["\x1b[2J" + "x" * 500], End())
    text = "\n".join(draw(tree, SHAPE, values=True))
    assert "\x1b" not in text
    assert "x" * 100 not in text


def test_the_critical_path_goes_up_to_the_spout() -> None:
    """It starts at the tuple that was acked last."""
    (tree,) = trees(["a"], HoldsAndSends(), third=True)
    path = critical_path(tree)
    # All acks have the same time here, so the sink may or may not be the last.
    assert {"split", "count"} <= {tree.tuples[edge].first.target for edge in path}


def test_json_omits_the_values_by_default() -> None:
    (tree,) = trees(["the moon"], Forgets())
    found: dict[str, Any] = json.loads(msgspec.json.encode(to_json(tree, False)))
    assert found["outcome"] == "open"
    assert len(found["tuples"]) == 3
    assert len(found["waits_for"]["unacked"]) == 1
    assert "moon" not in json.dumps(found)
    assert "moon" in json.dumps(to_json(tree, True))


def test_a_graph() -> None:
    """The output is for Graphviz."""
    (tree,) = trees(["a b"], End())
    lines = list(to_dot(tree))
    assert lines[0] == "digraph tree {"
    assert sum("->" in line for line in lines) == 3
