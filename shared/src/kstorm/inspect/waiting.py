"""What an open tree waits for: the XOR of all that was announced and not acked says it.

Mostly that is one edge, the tuple that somebody holds, forgot, or has not come to. A tuple that is held while others hang on it
already is not alone in the XOR; and after a crash there are tuples in it that were acked twice, or that nobody has announced.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kstorm.inspect.tree import Tree
from kstorm.inspect.xor import MOST_UNKNOWN, Span, one_or_two

_TWICE: Final = 2


class Waiting(Struct, frozen=True):
    """Edges of the tuples that keep a tree open."""

    unacked: Sequence[int] = ()
    """Announced, and not acked."""
    twice: Sequence[int] = ()
    """Acked more than once: they were executed again after a crash. Such a tree is never complete."""
    doubtful: Sequence[int] = ()
    """Most likely not acked, but that cannot be told: there are acks of something that is in no record; or they are in two records,
    as a producer sent one again, or hang on such a tuple, and two acks of one moment cancel out."""
    strange: Sequence[int] = ()
    """Acked, and announced by nobody: whoever emitted them died before. Such a tree is never complete either."""
    among: Sequence[int] = ()
    """If it cannot be told: the tuples of which no ack is known. At least one of them is not acked, if `lost` is not the cause and,
    in a tree of more than `MOST_UNKNOWN` tuples, none was acked twice."""
    lost: bool = False
    """Whether something was announced that is in no record that was found: it is on its way, or was lost with its process."""
    exact: bool = True
    """Whether all acks could be told apart, so that the groups above are certain."""


def waits_for(tree: Tree) -> Waiting:
    """What a tree waits for whose init was heard; nothing if it is not open."""
    proof = tree.proof
    if tree.outcome != "open" or not proof.begun:
        return Waiting()
    exact = all(tree.entries.get(number) for number in proof.counted)
    unknown = any(
        number in tree.entries and tree.entries[number] is None for number in proof.counted
    )
    acked: Counter[int] = Counter()
    announced: Counter[int] = Counter()
    for number in proof.counted:
        if entry := tree.entries.get(number):
            acked.update(entry.acked)
            announced.update(entry.announced)
    odd = (
        [edge for edge in tree.tuples if (acked[edge] + announced[edge]) % 2]
        if exact
        else _odd(tree)
    )
    if odd is None:
        among = [edge for edge in tree.tuples if not acked[edge]]
        return Waiting(among=among, lost=unknown, exact=False)
    sent_again = {tuple.first.target for tuple in tree.tuples.values() if len(tuple.sightings) > 1}
    unacked: list[int] = []
    twice: list[int] = []
    strange: list[int] = []
    doubtful: list[int] = []
    for edge in odd:
        tuple = tree.tuples[edge]
        hangs_on_such = acked[edge] and tuple.first.source in sent_again
        if hangs_on_such or (not acked[edge] and (unknown or len(tuple.sightings) > 1)):
            doubtful.append(edge)
        elif not acked[edge]:
            unacked.append(edge)
        elif acked[edge] >= _TWICE:
            twice.append(edge)
        elif acked[edge] > announced[edge]:
            strange.append(edge)
        else:
            doubtful.append(edge)
    if not exact:
        unacked, unsure = _held_ones(tree, unacked)
        doubtful += unsure
    strange = [
        edge
        for edge in strange
        if not any(parent in unacked for parent in tree.tuples[edge].parents)
    ]
    return Waiting(unacked, twice, doubtful, strange, exact=exact)


def _held_ones(tree: Tree, unheard: Sequence[int]) -> tuple[list[int], list[int]]:
    """Of edges of which no ack is known, those that are not acked, and those of which that cannot be told.

    A tuple is announced with the ack of the one that it hangs on. If that is not acked, the residual has it only because it is
    acked itself.
    """
    held, unsure = [], []
    for edge in unheard:
        parents = [parent in unheard for parent in tree.tuples[edge].parents]
        if not any(parents):
            held.append(edge)
        elif not all(parents):
            unsure.append(edge)
    return held, unsure


def _odd(tree: Tree) -> Sequence[int] | None:
    """The edges that the residual is the XOR of; None if that cannot be told."""
    edges, residual = list(tree.tuples), tree.proof.residual
    if len(edges) <= MOST_UNKNOWN:
        return _parts(edges, residual)
    few = one_or_two(edges, residual)
    return [edges[number] for number in few] if few is not None else _held(tree)


def _held(tree: Tree) -> Sequence[int] | None:
    """One tuple that its task holds, and those that it has sent meanwhile and that were acked."""
    sent: defaultdict[int, list[int]] = defaultdict(list)
    got: defaultdict[int, list[int]] = defaultdict(list)
    for edge, tuple in tree.tuples.items():
        sent[tuple.first.source_task].append(edge)
        got[tuple.first.target_task].append(edge)
    for task, edges in got.items():
        if 0 < len(sent[task]) < MOST_UNKNOWN:
            span = Span(sent[task])
            for edge in edges:
                parts = span.parts_of(tree.proof.residual ^ edge) if span.unique else None
                if parts is not None:
                    return [edge, *(sent[task][part] for part in parts)]
    return None


def _parts(edges: Sequence[int], total: int) -> Sequence[int] | None:
    span = Span(edges)
    parts = span.parts_of(total) if span.unique else None
    return None if parts is None else [edges[part] for part in parts]
