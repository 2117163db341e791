"""Prove from an acker's log that a tree is complete, by the rules of `kstorm.core.ledger`.

Only the first init counts. The values of init and acks are XORed in the order of the log. The tree
is complete as soon as the init was received and the XOR is 0. Later entries are ignored.

An acker that lost its position may apply a record twice or not at all. It may then complete a tree
although the log, in its order, does not show completion. A subset of the acks may still prove it.
If the XOR of the init and this subset is 0, then these acks have acked all edges that they
announced, because edges are random.
"""

from collections.abc import Sequence

from msgspec import Struct

from kstorm.operations.trees.tree_reader import AckerEntry, RecordPlace
from kstorm.operations.trees.xor_solver import MOST_UNKNOWN, XorSpan


class CompletionProof(Struct, frozen=True):
    closed: RecordPlace | None
    """Record that completed the tree. None if it never completed."""
    failed: RecordPlace | None
    """Record that failed the tree. None if it never failed."""
    residual: int
    """XOR of everything announced and not acked. 0 if the tree is complete."""
    acks: int
    """Number of acks needed."""
    begun: bool
    """True if the init was received."""
    late: int = 0
    """Acks that arrived after the tree was complete."""
    counted: Sequence[int] = ()
    """Indexes of the entries that the proof uses."""
    in_order: bool = True
    """True if the proof follows the order of the log. Otherwise it uses a subset of the acks."""


def prove(news: Sequence[AckerEntry], acked: bool = False) -> CompletionProof:
    """Compute the proof from all entries about one tree, in the order of the log.

    `acked` is True if the acker reported the tree as complete.
    """
    proof = _in_order(news)
    return proof if proof.closed or not acked else _subset_proof(news, proof) or proof


def _in_order(news: Sequence[AckerEntry]) -> CompletionProof:
    closed = failed = None
    begun, residual, acks, late, fails = False, 0, 0, 0, False
    counted: list[int] = []
    for number, one in enumerate(news):
        if closed is not None or failed is not None:
            late += one.kind == "ack"
            continue
        if one.kind == "init":
            if begun:
                continue
            begun = True
        elif one.kind == "fail":
            fails = True
        elif one.kind == "ack":
            acks += 1
        else:
            continue
        counted.append(number)
        residual ^= one.val
        if begun and fails:
            failed = one.place
        elif begun and not residual:
            closed = one.place
    return CompletionProof(closed, failed, residual, acks, begun, late, counted)


def _subset_proof(news: Sequence[AckerEntry], proof: CompletionProof) -> CompletionProof | None:
    """Find a subset of the acks that proves completion.

    Returns None if no subset does, or if there are too many acks for a reliable answer.
    """
    init = next((number for number, one in enumerate(news) if one.kind == "init"), None)
    acks = [number for number, one in enumerate(news) if one.kind == "ack"]
    if init is None or len(acks) > MOST_UNKNOWN:
        return None
    parts = XorSpan(news[number].val for number in acks).parts_of(news[init].val)
    if parts is None:
        return None
    counted = sorted([init, *(acks[part] for part in parts)])
    return CompletionProof(
        news[counted[-1]].place,
        None,
        0,
        len(parts),
        True,
        len(acks) - len(parts),
        counted,
        in_order=False,
    )
