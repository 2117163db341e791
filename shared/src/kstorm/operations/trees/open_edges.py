"""Find the tuples that an open tree waits for, from the XOR of all edges that were announced but
not acked.

In most cases the XOR is the edge of a single tuple. Its task holds the tuple, has not reached it,
or has a bug. If a task holds a tuple after emitting children, the XOR also contains the children's
edges. After a crash it may contain tuples that were acked twice or never announced.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.xor_solver import MOST_UNKNOWN, XorSpan, one_or_two

_TWICE: Final = 2


class OpenEdges(Struct, frozen=True):
    unacked: Sequence[int] = ()
    """Edges that were announced but not acked."""
    twice: Sequence[int] = ()
    """Edges that were acked more than once, because their tuples were executed again after a crash.

    Such a tree is never complete.
    """
    doubtful: Sequence[int] = ()
    """Edges that most likely were not acked.

    It is not certain, because some acks cover tuples that are missing in the records, or a producer
    has sent a record twice. Two acks of such a tuple in one flush cancel out, and so do those of
    its children.
    """
    strange: Sequence[int] = ()
    """Edges that were acked but never announced, because the process that emitted their tuples died
    first.

    Such a tree is never complete either.
    """
    among: Sequence[int] = ()
    """Edges without a known ack, if the answer is ambiguous.

    At least one of them is not acked, with two exceptions. First, `lost` may be the cause. Second,
    in a tree of more than `MOST_UNKNOWN` tuples, a tuple may have been acked twice.
    """
    lost: bool = False
    """True if an announced tuple is missing in the records: it is in flight, or was lost."""
    exact: bool = True
    """True if every ack could be resolved, so that the fields above are certain."""


def open_edges(tree: Tree) -> OpenEdges:
    """Return the edges that a tree waits for. Empty if the tree is not open or its init is missing."""
    proof = tree.proof
    if tree.outcome != "open" or not proof.begun:
        return OpenEdges()
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
        return OpenEdges(among=among, lost=unknown, exact=False)
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
        unacked, unsure = _unacked_edges(tree, unacked)
        doubtful += unsure
    strange = [
        edge
        for edge in strange
        if not any(parent in unacked for parent in tree.tuples[edge].parents)
    ]
    return OpenEdges(unacked, twice, doubtful, strange, exact=exact)


def _unacked_edges(tree: Tree, unheard: Sequence[int]) -> tuple[list[int], list[int]]:
    """Split edges without a known ack into definitely unacked and unknown ones.

    A tuple is announced with the ack of its parent. So if the parent is not acked, an edge of a
    child in the residual means that the child itself was acked.
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
    """Return the edges whose XOR is the residual. None if ambiguous."""
    edges, residual = list(tree.tuples), tree.proof.residual
    if len(edges) <= MOST_UNKNOWN:
        return _parts(edges, residual)
    few = one_or_two(edges, residual)
    return [edges[number] for number in few] if few is not None else _unacked(tree)


def _unacked(tree: Tree) -> Sequence[int] | None:
    """Find a tuple that its task holds, and the acked tuples that the task has anchored to it."""
    sent: defaultdict[int, list[int]] = defaultdict(list)
    got: defaultdict[int, list[int]] = defaultdict(list)
    for edge, tuple in tree.tuples.items():
        sent[tuple.first.source_task].append(edge)
        got[tuple.first.target_task].append(edge)
    for task, edges in got.items():
        if 0 < len(sent[task]) < MOST_UNKNOWN:
            span = XorSpan(sent[task])
            for edge in edges:
                parts = span.parts_of(tree.proof.residual ^ edge) if span.unique else None
                if parts is not None:
                    return [edge, *(sent[task][part] for part in parts)]
    return None


def _parts(edges: Sequence[int], total: int) -> Sequence[int] | None:
    span = XorSpan(edges)
    parts = span.parts_of(total) if span.unique else None
    return None if parts is None else [edges[part] for part in parts]
