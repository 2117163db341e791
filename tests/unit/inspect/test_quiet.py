"""Trees and verdicts for those who may not see what messages hold."""

from math import inf

import pytest

from kstorm.inspect.drawing import draw
from kstorm.inspect.facts import Facts, Letter
from kstorm.inspect.quiet import without_quotes, without_values
from kstorm.inspect.verdict import why
from kstorm.runtime.tracing.outlines import outline
from kstorm.testing import FeederSpout
from tests.unit.inspect.rebuilding import topology
from tests.unit.inspect.test_verdict import MESSAGE, NOW, Raises, tree_of


@pytest.mark.parametrize("quiet", [True, False])
def test_values_and_error_texts_are_removed(quiet: bool) -> None:
    """Who failed it, by which error and where is."""
    tree = tree_of(Raises())
    shape = outline(topology(FeederSpout("sentence"), Raises()))
    text = "\n".join(draw(without_values(tree) if quiet else tree, shape, values=True))
    assert ("moon" in text, "no such word" in text) == (not quiet, not quiet)
    assert ": ValueError" in text
    assert "(test_verdict.py:" in text


@pytest.mark.parametrize(("kind", "said"), [("failed", "failed"), ("", "of an unknown kind")])
def test_dead_letter_keeps_only_its_kind(kind: str, said: str) -> None:
    """As its reason has the text of the error."""
    facts = Facts(now=NOW, timeout_ms=inf, letters=[Letter(17, "failed: no such word moon", kind)])
    assert (
        why(MESSAGE, *without_quotes([tree_of(Raises())], facts)).said == f"dead letter #17: {said}"
    )
