"""Whether a tree is complete, by the rules of `kstorm.core.ledger`, from what its acker heard.

The first init counts, and no other. All that was announced or acked is XORed, in the order of the log; at the first moment
when that is 0 and the init was heard, the tree is complete. What comes later is of no account.

An acker that lost its place may apply a record twice, or not at all. Then it may find complete what is not so in this order. But
whichever acks are XORed to the init: if that is 0, then all that those announce was acked by them, as edges are random.
"""

from collections.abc import Sequence

from msgspec import Struct

from kstorm.inspect.gather import News, Place
from kstorm.inspect.xor import MOST_UNKNOWN, Span


class Proof(Struct, frozen=True):
    """What the log proves of a tree."""

    closed: Place | None
    """The record with which it was complete; None if it never was."""
    failed: Place | None
    """The record with which it had failed; None if it never had."""
    residual: int
    """The XOR of all that was announced and not acked; 0 of a tree that is complete."""
    acks: int
    """That were needed."""
    begun: bool
    """Whether the init was heard."""
    late: int = 0
    """Acks that came when it was complete already."""
    counted: Sequence[int] = ()
    """The numbers of the news that count."""
    in_order: bool = True
    """Whether that is so in the order of the log; else it is of some of the acks."""


def prove(news: Sequence[News], acked: bool = False) -> Proof:
    """The proof from all news of one tree, in the order of the log. `acked`: whether its acker said that it is complete."""
    proof = _in_order(news)
    return proof if proof.closed or not acked else _of_some(news, proof) or proof


def _in_order(news: Sequence[News]) -> Proof:
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
    return Proof(closed, failed, residual, acks, begun, late, counted)


def _of_some(news: Sequence[News], proof: Proof) -> Proof | None:
    """The proof from those of the acks that make one; None if none do, or there are too many acks to tell."""
    init = next((number for number, one in enumerate(news) if one.kind == "init"), None)
    acks = [number for number, one in enumerate(news) if one.kind == "ack"]
    if init is None or len(acks) > MOST_UNKNOWN:
        return None
    parts = Span(news[number].val for number in acks).parts_of(news[init].val)
    if parts is None:
        return None
    counted = sorted([init, *(acks[part] for part in parts)])
    return Proof(
        news[counted[-1]].place,
        None,
        0,
        len(parts),
        True,
        len(acks) - len(parts),
        counted,
        in_order=False,
    )
