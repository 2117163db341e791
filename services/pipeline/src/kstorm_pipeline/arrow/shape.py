"""What the records of a pipeline look like, as a worker wants to know it: no Spark in it, and small."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class DoubtfulError(Exception):
    """A record is not plainly good; Spark is to decide."""


class Kind(Enum):
    """The types of columns that are read here."""

    STRING = auto()
    WHOLE = auto()
    """A whole number of so many bits."""
    DOUBLE = auto()
    DECIMAL = auto()
    BOOLEAN = auto()
    TIMESTAMP = auto()
    MILLIS = auto()
    """A TIMESTAMP, in JSON the milliseconds since 1970."""
    DATE = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a JSON object, and its column."""

    name: str
    kind: Kind
    nullable: bool = True
    bits: int = 64
    """Of a whole number."""
    precision: int = 0
    """Of a decimal, with its scale."""
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """The records of a pipeline."""

    fields: tuple[Field, ...]
    identity: tuple[str, ...] = ()
    """The columns that name an occurrence where the headers do not."""
    key: str | None = None
    """A column for the record's key as text."""
    without: frozenset[str] = frozenset()
    """Columns that are read, and not written."""
