"""Find out which tuples each ack covers.

An ack is the XOR of all edges of a tree that were acked or created in one flush of a process. Edges
are random, so the tree's edges in an ack can be computed. All tasks of a process belong to one
component. The component acks tuples that were sent to it, and announces tuples that it emitted. It
announces a tuple only together with an ack of one of the tuple's anchors.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kstorm.operations.trees.tree_reader import AckerEntry, Sighting
from kstorm.operations.trees.xor_solver import MOST_UNKNOWN, XorSpan


class AckCoverage(Struct, frozen=True):
    """The tuples that an init or an ack covers."""

    component: str
    """The component that sent it."""
    acked: Sequence[int]
    """Edges of the acked tuples."""
    announced: Sequence[int]
    """Edges of the emitted tuples."""


def coverage_of(
    news: Sequence[AckerEntry], tuples: Mapping[int, Sighting]
) -> dict[int, AckCoverage | None]:
    """Return for each init and ack, by its index in `news`, the tuples that it covers.

    The value is None if one of these tuples is missing in the records. It is also None if a tuple
    has two anchors in this tree and the ack covers only one of them. The result omits entries with
    too many candidate tuples for a reliable answer.
    """
    solver = _Solver(tuples)
    found: dict[int, AckCoverage | None] = {}
    for number, one in enumerate(news):
        if one.kind in ("init", "ack"):
            entry = solver.init(one.val) if one.kind == "init" else solver.ack(one.val)
            if entry is not None or solver.is_sure:
                found[number] = entry
    return found


class _Solver:
    def __init__(self, tuples: Mapping[int, Sighting]) -> None:
        self._tuples = tuples
        self._targets = {seen.target for seen in tuples.values()}
        self._spouts = {seen.source for seen in tuples.values()} - self._targets
        self._spans: dict[str, tuple[Sequence[int], XorSpan] | None] = {}
        self._announced: set[int] = set()
        self.is_sure = len(tuples) <= MOST_UNKNOWN
        """True if an unsolved equation proves that a tuple is missing from the records."""

    def init(self, val: int) -> AckCoverage | None:
        edges = self._solve("init", val, lambda seen: seen.source in self._spouts)
        if not edges:
            return None
        self._announced.update(edges)
        return AckCoverage(self._tuples[edges[0]].source, (), edges)

    def ack(self, val: int) -> AckCoverage | None:
        """Return the coverage by the only component that fits, or None if none or several fit."""
        fitting = [
            entry for target in self._targets if (entry := self._of(target, val)) is not None
        ]
        if len(fitting) != 1:
            return None
        self._announced.update(fitting[0].announced)
        return fitting[0]

    def _of(self, component: str, val: int) -> AckCoverage | None:
        edges = self._solve(component, val, lambda seen: component in (seen.source, seen.target))
        if not edges:
            return None
        acked = [edge for edge in edges if self._is_acked(edge, component)]
        announced = [edge for edge in edges if edge not in acked]
        return AckCoverage(component, acked, announced) if acked else None

    def _is_acked(self, edge: int, component: str) -> bool:
        """Return True if the component acked this edge. Otherwise it announced the edge.

        A tuple that a bolt sends to itself is announced first.
        """
        seen = self._tuples[edge]
        return seen.target == component and (seen.source != component or edge in self._announced)

    def _solve(self, name: str, val: int, fits: Callable[[Sighting], bool]) -> Sequence[int] | None:
        if name not in self._spans:
            edges = [edge for edge, seen in self._tuples.items() if fits(seen)]
            self._spans[name] = (edges, XorSpan(edges)) if len(edges) <= MOST_UNKNOWN else None
        known = self._spans[name]
        if known is None or not known[1].unique:
            return None
        parts = known[1].parts_of(val)
        return None if parts is None else [known[0][part] for part in parts]
