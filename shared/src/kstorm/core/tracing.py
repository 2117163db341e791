"""Which trees are traced: a share of all, chosen by bits of their roots, so that every process agrees with nothing handed on."""

from typing import Final

import numpy as np

from kstorm.core.columns import Ids
from kstorm.core.lanes import Parents

_BITS: Final = 56  # from where OpenTelemetry's samplers take the randomness of a trace id
_MASK: Final = (1 << _BITS) - 1


class Tracing:
    """`share` of the trees, above 0 and up to 1."""

    def __init__(self, share: float) -> None:
        self._least = max(1, round((1 - share) * (1 << _BITS)))  # root 0 is none

    def picks(self, root: int) -> bool:
        """Whether a tree is traced."""
        return (root & _MASK) >= self._least

    def parents(self, roots: Ids, anchors: Ids) -> Parents:
        """Of tuples with these roots, each anchored to one tuple, the anchors of those whose trees are traced."""
        picked = np.flatnonzero((roots & np.uint64(_MASK)) >= np.uint64(self._least))
        if not picked.size:
            return {}
        return {
            position: [edge]
            for position, edge in zip(picked.tolist(), anchors[picked].tolist(), strict=True)
        }


def tracing(share: float) -> Tracing | None:
    """None if no tree is traced."""
    return Tracing(share) if share else None
