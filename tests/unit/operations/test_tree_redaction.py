"""Trees and verdicts for operators without permission to see messages."""

from math import inf

import pytest

from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.trees.drawing import draw
from kstorm.operations.trees.facts import LetterFact, MessageFacts
from kstorm.operations.trees.redaction import redact_quotes, redact_values
from kstorm.operations.trees.verdict import verdict_on
from kstorm.testing import FeederSpout
from tests.unit.operations.rebuilding import topology
from tests.unit.operations.test_verdict import MESSAGE, NOW, Raises, tree_of


@pytest.mark.parametrize("quiet", [True, False])
def test_values_and_error_texts_are_removed(quiet: bool) -> None:
    """The task, the type of the error and the place remain."""
    tree = tree_of(Raises())
    shape = outline_of(topology(FeederSpout("sentence"), Raises()))
    text = "\n".join(draw(redact_values(tree) if quiet else tree, shape, values=True))
    assert ("moon" in text, "no such word" in text) == (not quiet, not quiet)
    assert ": ValueError" in text
    assert "(test_verdict.py:" in text


@pytest.mark.parametrize(("kind", "said"), [("failed", "failed"), ("", "of an unknown kind")])
def test_dead_letter_keeps_only_its_kind(kind: str, said: str) -> None:
    """Its reason would contain the text of the error."""
    facts = MessageFacts(
        now=NOW, timeout_ms=inf, letters=[LetterFact(17, "failed: no such word moon", kind)]
    )
    assert (
        verdict_on(MESSAGE, *redact_quotes([tree_of(Raises())], facts)).said
        == f"dead letter #17: {said}"
    )
