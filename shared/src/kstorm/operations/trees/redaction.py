"""Redact message contents from trees and facts.

Users who may not see values may still see where a message is.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from kstorm.core.failure_notes import Note
from kstorm.operations.trees.facts import MessageFacts
from kstorm.operations.trees.tree import Tree


def redact_values(tree: Tree) -> Tree:
    """Remove the values of tuples, and error texts, which may quote them."""
    return replace(
        tree,
        tuples={
            edge: replace(tuple, sightings=[replace(seen, values=()) for seen in tuple.sightings])
            for edge, tuple in tree.tuples.items()
        },
        news=[replace(one, note=_without_text(one.note)) for one in tree.news],
        endings=[replace(ending, note=_without_text(ending.note)) for ending in tree.endings],
    )


def redact_quotes(
    trees: Sequence[Tree], facts: MessageFacts
) -> tuple[Sequence[Tree], MessageFacts]:
    """Redact the inputs of a verdict. A dead letter keeps only its kind."""
    letters = [
        letter._replace(reason=letter.kind or "of an unknown kind") for letter in facts.letters
    ]
    return [redact_values(tree) for tree in trees], replace(facts, letters=letters)


def _without_text(note: Note | None) -> Note | None:
    return None if note is None else replace(note, message="")
