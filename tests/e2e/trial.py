"""What a run tries: a topology, what it is fed with, how its sink is audited, and which of its parts are disturbed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tables:
    """What the pipeline makes of the sink, and how that is audited."""

    definition: str
    """The tables: `package.module:attribute`."""
    table: str
    """The one that is compared with the messages."""
    key: str
    """The column with its key."""
    number: str
    """What is compared by key: an integer, as SQL."""
    unit: str
    """What that counts."""


@dataclass(frozen=True, slots=True)
class Trial:
    name: str
    """Of the topology, and of its release."""
    reference: str
    """The topology: `package.module:attribute`. Its files go to the pods with the values."""
    source: str
    sink: str
    spout: str
    bolts: tuple[str, ...]
    """All of them, from the source to the sink."""
    stateless: str
    """The bolt that is scaled, of those without state."""
    stateful: str
    """The bolt that is scaled, of those with state."""
    holding: str
    """The bolt that holds tuples while it waits for others; empty if none does."""
    outputs: str
    """What the sink's records are called."""
    lines: Callable[[], Sequence[str]]
    """Makes what is posted, in turn; see `inside/feed.py` for what they may have in them."""
    audit: str
    """The module of `tests.e2e.inside` that audits the sink."""
    probe: str
    """The message that `helm test` sends."""
    tables: Tables

    @property
    def dead_letters(self) -> str:
        """The topic of its dead letters."""
        return f"{self.name}.__dead_letters"
