"""A tree, put together from what was found of it.

Which tuple hangs on which is exact where the frames say it. Else it is the one tuple of the tree that went to the task which
emitted, or one of several: those of the acks that announce the tuple, if the acks can be told apart.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kstorm.core.notes import Note
from kstorm.core.origins import Origin
from kstorm.inspect.entries import Entry, take_apart
from kstorm.inspect.gather import Ending, Gathered, News, Place, Sighting
from kstorm.inspect.proof import Proof, prove


class TreeTuple(Struct):
    """One tuple of a tree, as one task gets it."""

    edge: int
    sightings: Sequence[Sighting]
    """The frames that it is in: one, but for a record that was sent twice."""
    parents: Sequence[int] = ()
    """Edges of the tuples that it may hang on; none if the spout emitted it."""
    exact: bool = True
    """Whether it hangs on all of `parents`. Else it hangs on at least one of them."""

    @property
    def first(self) -> Sighting:
        """Where it was seen first."""
        return self.sightings[0]


class Tree(Struct):
    """A tree of tuples: one attempt at a message."""

    root: int
    tuples: Mapping[int, TreeTuple]
    """By edge, in the order in which they were sent."""
    news: Sequence[News]
    """What the acker heard, in the order of its log."""
    entries: Mapping[int, Entry | None]
    """By number of the news, which tuples an init or an ack is about; see `take_apart`."""
    endings: Sequence[Ending]
    proof: Proof

    @property
    def init(self) -> News | None:
        """How it began; None if that was not found."""
        return next((news for news in self.news if news.kind == "init"), None)

    @property
    def origin(self) -> Origin | None:
        """The message, if the init says it."""
        return None if self.init is None else self.init.origin

    @property
    def attempt(self) -> int:
        """Which attempt at its message it is, from 1; 0 if the init does not say."""
        return self.origin.attempt if self.origin else 0

    @property
    def fail(self) -> News | None:
        """Why it failed, if a task failed it: with a note if one came."""
        fails = [news for news in self.news if news.kind == "fail"]
        return next((news for news in fails if news.note), fails[0] if fails else None)

    @property
    def note(self) -> Note | None:
        """Why it failed, from whoever says it."""
        told = (ending.note for ending in self.endings if ending.kind == "failed" and ending.note)
        return (self.fail and self.fail.note) or next(told, None)

    @property
    def begun(self) -> int:
        """Unix time in ms of the first that is known of it; 0 if nothing is."""
        return min((place.timestamp for place in self._places()), default=0)

    @property
    def ended(self) -> int | None:
        """When the spout was told, or else when the tree was complete; None if it is open."""
        told = next((ending for ending in self.endings if ending.kind != "reset"), None)
        place = told.place if told else self.proof.closed
        return place.timestamp if place else None

    @property
    def outcome(self) -> str:
        """`acked`, `failed` or `open`."""
        if self.proof.closed is not None:
            return "acked"
        return "failed" if self.proof.failed is not None else "open"

    def children(self) -> Mapping[int, Sequence[int]]:
        """By edge, the tuples that hang on it, 0 standing for the spout; each at the first of its parents."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for edge, tuple in self.tuples.items():
            found[tuple.parents[0] if tuple.parents else 0].append(edge)
        return found

    def _places(self) -> list[Place]:
        seen = [sighting.place for tuple in self.tuples.values() for sighting in tuple.sightings]
        return [*seen, *(news.place for news in self.news)]


def build(found: Gathered) -> Tree:
    """The tree of all that was found of it; what was found twice counts once."""
    sightings = sorted({(s.place, s.row): s for s in found.sightings}.values(), key=_when)
    grouped: defaultdict[int, list[Sighting]] = defaultdict(list)
    for sighting in sightings:
        grouped[sighting.edge].append(sighting)
    tuples = {edge: TreeTuple(edge, seen) for edge, seen in grouped.items()}
    news = _in_order(found.news)
    entries = take_apart(news, {edge: tuple.first for edge, tuple in tuples.items()})
    _find_parents(tuples, entries)
    endings = sorted(
        {ending.place: ending for ending in found.endings}.values(), key=lambda ending: ending.place
    )
    return Tree(
        found.root,
        tuples,
        news,
        entries,
        endings,
        prove(news, any(ending.kind == "acked" for ending in endings)),
    )


def _in_order(news: Sequence[News]) -> list[News]:
    """Of one partition, as a root has one acker: each record once, and what is in a record in the order it is applied in."""
    seen: dict[Any, News] = {}
    for one in news:
        seen.setdefault((one.place.offset, one.kind), one)
    return sorted(seen.values(), key=lambda one: one.place.offset)


def _when(sighting: Sighting) -> tuple[Any, ...]:
    return sighting.place.timestamp, sighting.place, sighting.row


def _find_parents(tuples: Mapping[int, TreeTuple], entries: Mapping[int, Entry | None]) -> None:
    by_task: defaultdict[int, list[int]] = defaultdict(list)
    for edge, tuple in tuples.items():
        by_task[tuple.first.target_task].append(edge)
    announcing: defaultdict[int, list[Entry]] = defaultdict(list)
    for entry in filter(None, entries.values()):
        for edge in entry.announced:
            announcing[edge].append(entry)
    for edge, tuple in tuples.items():
        said = [parent for parent in tuple.first.parents if parent in tuples]
        if said and len(said) == len(tuple.first.parents):
            tuple.parents = said
            continue
        possible = [parent for parent in by_task[tuple.first.source_task] if parent != edge]
        told = {parent for entry in announcing[edge] for parent in entry.acked}
        tuple.parents = [parent for parent in possible if parent in told] or possible
        tuple.exact = len(tuple.parents) < 2
