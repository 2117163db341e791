"""Describes a pipeline's records for a worker: small, and without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class DoubtfulError(Exception):
    """A record is not plainly good, so Spark has to decide."""


class ColumnKind(Enum):
    """The supported column types."""

    STRING = auto()
    WHOLE = auto()
    """An integer of `LayoutField.bits` bits."""
    DOUBLE = auto()
    DECIMAL = auto()
    BOOLEAN = auto()
    TIMESTAMP = auto()
    MILLIS = auto()
    """A TIMESTAMP, in JSON the milliseconds since 1970."""
    DATE = auto()


@dataclass(frozen=True, slots=True)
class LayoutField:
    """One field of a JSON object and its column."""

    name: str
    """The column's name."""
    kind: ColumnKind
    nullable: bool = True
    bits: int = 64
    """Size of a whole number."""
    precision: int = 0
    """Total digits of a decimal. `scale` of them are after the point."""
    scale: int = 0
    json_name: str = ""
    """The name of the field, if it is not the column's."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The records of a pipeline."""

    fields: tuple[LayoutField, ...]
    identity: tuple[str, ...] = ()
    """The columns that name an occurrence if the headers don't."""
    key: str | None = None
    """Name of a column for the record's key as text."""
    without: frozenset[str] = frozenset()
    """Columns that are read but not written."""
