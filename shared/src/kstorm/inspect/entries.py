"""Which tuples an ack is about. An ack of a tree is the XOR of all edges that were acked and created in one flush of a process.

Edges are random, so which of the tree's they are can be computed. All tasks of a process are of one component: it acks tuples
that went to it, and announces tuples that it emitted, none of them without acking one that it hangs on.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kstorm.inspect.gather import News, Sighting
from kstorm.inspect.xor import MOST_UNKNOWN, Span


class Entry(Struct, frozen=True):
    """What an init or an ack is about."""

    component: str
    """Whose it is."""
    acked: Sequence[int]
    """Edges of the tuples that were acked."""
    announced: Sequence[int]
    """Edges of those that were emitted."""


def take_apart(news: Sequence[News], tuples: Mapping[int, Sighting]) -> dict[int, Entry | None]:
    """By number of the news, what each is about; None for what is about something that is in no record, or about one of the two
    anchors of a tuple in this tree. What is of too many tuples to tell is left out."""
    solver = _Solver(tuples)
    found: dict[int, Entry | None] = {}
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
        self._spans: dict[str, tuple[Sequence[int], Span] | None] = {}
        self._announced: set[int] = set()
        self.is_sure = len(tuples) <= MOST_UNKNOWN
        """Whether what is not found is not there."""

    def init(self, val: int) -> Entry | None:
        edges = self._solve("init", val, lambda seen: seen.source in self._spouts)
        if not edges:
            return None
        self._announced.update(edges)
        return Entry(self._tuples[edges[0]].source, (), edges)

    def ack(self, val: int) -> Entry | None:
        """Of the component that it fits; None if it fits none, or several."""
        fitting = [
            entry for target in self._targets if (entry := self._of(target, val)) is not None
        ]
        if len(fitting) != 1:
            return None
        self._announced.update(fitting[0].announced)
        return fitting[0]

    def _of(self, component: str, val: int) -> Entry | None:
        edges = self._solve(component, val, lambda seen: component in (seen.source, seen.target))
        if not edges:
            return None
        acked = [edge for edge in edges if self._is_acked(edge, component)]
        announced = [edge for edge in edges if edge not in acked]
        return Entry(component, acked, announced) if acked else None

    def _is_acked(self, edge: int, component: str) -> bool:
        """Rather than announced. What a bolt sends to itself is announced first."""
        seen = self._tuples[edge]
        return seen.target == component and (seen.source != component or edge in self._announced)

    def _solve(self, name: str, val: int, fits: Callable[[Sighting], bool]) -> Sequence[int] | None:
        if name not in self._spans:
            edges = [edge for edge, seen in self._tuples.items() if fits(seen)]
            self._spans[name] = (edges, Span(edges)) if len(edges) <= MOST_UNKNOWN else None
        known = self._spans[name]
        if known is None or not known[1].unique:
            return None
        parts = known[1].parts_of(val)
        return None if parts is None else [known[0][part] for part in parts]
