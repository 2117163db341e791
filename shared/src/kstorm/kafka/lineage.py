"""Writes a tuple's origin as headers of the record that a `KafkaBolt` writes.

    kstorm-roots               ids of its spout tuples: 16 hex digits each, comma-separated
    kstorm-source-topic        topic of the source message
    kstorm-source-partition    partition of the source message
    kstorm-source-offset       offset of the source message
    kstorm-source-part         distinguishes records of one message, the same at each replay
    traceparent                OpenTelemetry span, if enabled: see `kstorm.kafka.traceparent`

All values are text. Roots differ between attempts, but `kstorm-source-` headers do not. So if all
four of these are present, consumers can detect a replay by them, without reading the value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kstorm.errors import ConfigError
from kstorm.kafka.ports import Headers
from kstorm.kafka.traceparent import TRACEPARENT, Traceparents
from kstorm.topology import Fields, Tuple, TupleBatch

ROOTS: Final = "kstorm-roots"
SOURCE_TOPIC: Final = "kstorm-source-topic"
SOURCE_PARTITION: Final = "kstorm-source-partition"
SOURCE_OFFSET: Final = "kstorm-source-offset"
SOURCE_PART: Final = "kstorm-source-part"


@dataclass(frozen=True, slots=True)
class Lineage:
    """Builds the headers. A field that the tuple lacks produces no header."""

    topic: str | None
    """The source topic. None: not written."""
    partition: str
    """The field with the source partition."""
    offset: str
    """The field with the source offset."""
    part: str
    """The field that distinguishes records made from one message."""
    sampled: float | None = None
    """The share of trees whose `traceparent` is flagged "sampled". None: no such header."""
    parents: Traceparents | None = None

    def __post_init__(self) -> None:
        if self.sampled is not None and not 0 <= self.sampled <= 1:
            raise ConfigError(
                f"with_lineage(sampled={self.sampled!r}): it must be a share of the trees, from 0 "
                "to 1"
            )

    def of_topology(self, name: str) -> "Lineage":
        """Return a copy for the named topology."""
        return (
            self
            if self.sampled is None
            else replace(self, parents=Traceparents(name, self.sampled))
        )

    def of_tuple(self, tuple: Tuple) -> Headers:
        roots = ",".join(map(_root, tuple.roots()))
        headers: Headers = [(ROOTS, roots)] if roots else []
        if self.parents is not None and (parent := self.parents.of(tuple.root, tuple.edge)):
            headers.append((TRACEPARENT, parent))
        if self.topic is not None:
            headers.append((SOURCE_TOPIC, self.topic))
        headers += [(name, str(tuple[field])) for name, field in self._known(tuple.fields)]
        return headers

    def of_batch(self, batch: TupleBatch) -> Sequence[Headers]:
        """Return the headers for each tuple of the batch."""
        topic: Headers = [] if self.topic is None else [(SOURCE_TOPIC, self.topic)]
        known = self._known(batch.source.fields)
        names = [name for name, _ in known]
        roots = [0] * len(batch) if batch.roots is None else batch.roots.tolist()
        rows = (
            zip(*(map(str, batch[field]) for _, field in known), strict=True)
            if known
            else [()] * len(batch)
        )
        headers = [
            [*([(ROOTS, _root(root))] if root else []), *topic, *zip(names, row, strict=True)]
            for root, row in zip(roots, rows, strict=True)
        ]
        if self.parents is not None and batch.roots is not None:
            for one, parent in zip(
                headers, self.parents.of_columns(batch.roots, batch.edges), strict=True
            ):
                if parent:
                    one.append((TRACEPARENT, parent))
        return headers

    def _known(self, fields: Fields) -> list[tuple[str, str]]:
        """Return the headers available from these fields, each with its field."""
        named = (
            (SOURCE_PARTITION, self.partition),
            (SOURCE_OFFSET, self.offset),
            (SOURCE_PART, self.part),
        )
        return [(name, field) for name, field in named if field in fields]


def _root(root: int) -> str:
    return f"{root:016x}"
