"""Selects the trees that are traced.

The choice depends only on bits of the root id. So every process selects the same trees without
communication.
"""

from typing import Final

import numpy as np

from kstorm.core.columns import Ids
from kstorm.core.lanes import Parents

_BITS: Final = 56  # the bits of a trace id that OpenTelemetry's samplers treat as random
_MASK: Final = (1 << _BITS) - 1


class TraceSampler:
    """Selects a `share` of the trees, above 0 and up to 1."""

    def __init__(self, share: float) -> None:
        self._least = max(1, round((1 - share) * (1 << _BITS)))  # root 0 means untracked

    def picks(self, root: int) -> bool:
        return (root & _MASK) >= self._least

    def parents(self, roots: Ids, anchors: Ids) -> Parents:
        """Return the anchors of tuples whose trees are traced, by position.

        Each tuple has one anchor.
        """
        picked = np.flatnonzero((roots & np.uint64(_MASK)) >= np.uint64(self._least))
        if not picked.size:
            return {}
        return {
            position: [edge]
            for position, edge in zip(picked.tolist(), anchors[picked].tolist(), strict=True)
        }


def trace_sampler(share: float) -> TraceSampler | None:
    """Return the tracing for a share of the trees, or None if the share is 0."""
    return TraceSampler(share) if share else None
