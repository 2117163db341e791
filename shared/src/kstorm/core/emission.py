"""A batch that is being emitted: rows are assigned to lanes and IDs are drawn, but nothing is sent
yet.

So an error has no effect.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kstorm.core.batch_routing import pick
from kstorm.core.columns import Ids
from kstorm.core.ids import NextIds
from kstorm.core.lanes import NO_PARENTS, Lane, Parents
from kstorm.core.routing import StreamRoutes
from kstorm.core.trace_sampling import TraceSampler
from kstorm.topology import Placed


class Emission:
    """The rows of a batch by lane.

    `roots` holds the tree of each row, or is None if nothing is tracked.
    """

    __slots__ = ("_sends", "placed", "vals")

    def __init__(
        self,
        route: StreamRoutes,
        columns: Sequence[list[Any]],
        count: int,
        roots: Ids | None,
        next_ids: NextIds,
        anchors: Ids | None = None,
        trace: TraceSampler | None = None,
    ) -> None:
        """`anchors`: the edge of each row's anchor, if some trees are traced."""
        self._sends: list[tuple[Lane, list[list[Any]], int, Ids | None, Ids | None, Parents]] = []
        self.placed: Placed = []
        self.vals = np.zeros(count, np.uint64)
        """XOR of the edges drawn for each row."""
        for spread in route.spreaders if count else ():
            for lane, rows in spread(columns, count):
                picked = [pick(column, rows) for column in columns]
                size = len(picked[0])
                edges, parents = None, NO_PARENTS
                if roots is not None:
                    edges = next_ids(size)
                    self.vals[rows] ^= edges
                    if trace is not None and anchors is not None:
                        parents = trace.parents(roots[rows], anchors[rows])
                self._sends.append(
                    (lane, picked, size, None if roots is None else roots[rows], edges, parents)
                )
                self.placed.append((lane.targets[0], rows))

    def send(self) -> None:
        for lane, columns, size, roots, edges, parents in self._sends:
            lane.put(columns, size, roots, edges, parents)
