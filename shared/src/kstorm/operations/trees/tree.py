"""Build a tree from its records.

Parents are exact if the frames contain them. Otherwise the candidates are the tuples of the tree
that the emitting task received. If the acks can be resolved, they reduce the candidates to the
tuples that were acked together with the announcement.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kstorm.core.failure_notes import Note
from kstorm.core.origins import Origin
from kstorm.operations.trees.ack_coverage import AckCoverage, coverage_of
from kstorm.operations.trees.proof import CompletionProof, prove
from kstorm.operations.trees.tree_reader import (
    AckerEntry,
    RecordPlace,
    Sighting,
    TreeCompletion,
    TreeRecords,
)


class TreeTuple(Struct):
    """A tuple of a tree, as received by one task."""

    edge: int
    sightings: Sequence[Sighting]
    """Occurrences in frames. There are several only if the record was sent twice."""
    parents: Sequence[int] = ()
    """Edges of possible parents. Empty if the spout emitted the tuple."""
    exact: bool = True
    """True if all of `parents` are anchors. Otherwise at least one of them is."""

    @property
    def first(self) -> Sighting:
        """The earliest occurrence."""
        return self.sightings[0]


class Tree(Struct):
    """A tuple tree, which is one attempt at a message."""

    root: int
    tuples: Mapping[int, TreeTuple]
    """Tuples by edge, in the order in which they were sent."""
    news: Sequence[AckerEntry]
    """The tree's entries in acker frames, in the order of the log."""
    entries: Mapping[int, AckCoverage | None]
    """Tuples covered by each init and ack, by index in `news`. See `coverage_of`."""
    endings: Sequence[TreeCompletion]
    proof: CompletionProof

    @property
    def init(self) -> AckerEntry | None:
        """The first init found, or None."""
        return next((news for news in self.news if news.kind == "init"), None)

    @property
    def origin(self) -> Origin | None:
        """The message, if the init contains it."""
        return None if self.init is None else self.init.origin

    @property
    def attempt(self) -> int:
        """Number of the attempt at the message, from 1. 0 if unknown."""
        return self.origin.attempt if self.origin else 0

    @property
    def fail(self) -> AckerEntry | None:
        """The failure reported by a task, preferably one with a note."""
        fails = [news for news in self.news if news.kind == "fail"]
        return next((news for news in fails if news.note), fails[0] if fails else None)

    @property
    def note(self) -> Note | None:
        """The reason of the failure, from a task or from the completion."""
        told = (ending.note for ending in self.endings if ending.kind == "failed" and ending.note)
        return (self.fail and self.fail.note) or next(told, None)

    @property
    def begun(self) -> int:
        """Unix time in ms of the earliest record. 0 without records."""
        return min((place.timestamp for place in self._places()), default=0)

    @property
    def ended(self) -> int | None:
        """Unix time in ms of the completion, or of the completing ack if the completion is missing.

        None if the tree is open.
        """
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
        """Return children by parent edge, with 0 for the spout.

        A tuple with several parents is listed under the first one.
        """
        found: defaultdict[int, list[int]] = defaultdict(list)
        for edge, tuple in self.tuples.items():
            found[tuple.parents[0] if tuple.parents else 0].append(edge)
        return found

    def _places(self) -> list[RecordPlace]:
        seen = [sighting.place for tuple in self.tuples.values() for sighting in tuple.sightings]
        return [*seen, *(news.place for news in self.news)]


def build(found: TreeRecords) -> Tree:
    """Build the tree. Records that were found twice count once."""
    sightings = sorted({(s.place, s.row): s for s in found.sightings}.values(), key=_when)
    grouped: defaultdict[int, list[Sighting]] = defaultdict(list)
    for sighting in sightings:
        grouped[sighting.edge].append(sighting)
    tuples = {edge: TreeTuple(edge, seen) for edge, seen in grouped.items()}
    news = _in_order(found.news)
    entries = coverage_of(news, {edge: tuple.first for edge, tuple in tuples.items()})
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


def _in_order(news: Sequence[AckerEntry]) -> list[AckerEntry]:
    """Return the entries without duplicates, in the order of the log.

    All entries are in one partition, because a root has one acker task. The sort is stable, so
    entries within a record keep the order in which the ledger applies them.
    """
    seen: dict[Any, AckerEntry] = {}
    for one in news:
        seen.setdefault((one.place.offset, one.kind), one)
    return sorted(seen.values(), key=lambda one: one.place.offset)


def _when(sighting: Sighting) -> tuple[Any, ...]:
    return sighting.place.timestamp, sighting.place, sighting.row


def _find_parents(
    tuples: Mapping[int, TreeTuple], entries: Mapping[int, AckCoverage | None]
) -> None:
    by_task: defaultdict[int, list[int]] = defaultdict(list)
    for edge, tuple in tuples.items():
        by_task[tuple.first.target_task].append(edge)
    announcing: defaultdict[int, list[AckCoverage]] = defaultdict(list)
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
