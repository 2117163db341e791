"""The subject of a run: a topology, its input, the audit of its sink, and the parts to disturb."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tables:
    """The pipeline's tables of the sink, and their audit."""

    definition: str
    """The tables: `package.module:attribute`."""
    table: str
    """The table that is compared with the messages."""
    key: str
    """Its key column."""
    number: str
    """The number to compare by key: an integer SQL expression."""
    unit: str
    """The unit of that number."""


@dataclass(frozen=True, slots=True)
class Trial:
    name: str
    """Name of the topology and of its release."""
    reference: str
    """The topology: `package.module:attribute`. The values contain its files for the pods."""
    source: str
    sink: str
    spout: str
    bolts: tuple[str, ...]
    """All bolts, from the source to the sink."""
    stateless: str
    """The bolt without state that is scaled."""
    stateful: str
    """The bolt with state that is scaled."""
    holding: str
    """The bolt that holds tuples while it waits for others, or empty."""
    outputs: str
    """The name for the sink's records."""
    lines: Callable[[], Sequence[str]]
    """Returns the lines to post in turn. `inside/feed.py` describes their placeholders."""
    audit: str
    """The module of `tests.e2e.inside` that audits the sink."""
    probe: str
    """The message that `helm test` sends."""
    tables: Tables

    @property
    def dead_letters(self) -> str:
        return f"{self.name}.__dead_letters"
