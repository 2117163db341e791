"""The names of the tables below one root, and the errors for missing ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kstorm_pipeline.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OWN: Final = ("bronze", "silver", "quarantine")
"""The tables that always exist."""
LOG: Final = "_delta_log"
"""The folder that makes a folder a Delta table."""


def arrange(names: Iterable[str]) -> list[str]:
    """Return the names: the pipeline's own tables first, then gold."""
    found = set(names)
    return [name for name in OWN if name in found] + sorted(found - set(OWN))


def no_tables(root: str) -> SettingsError:
    return SettingsError(
        f"there are no tables at {root}: run the pipeline first, or correct --tables"
    )


def no_such_table(place: str, names: Sequence[str]) -> SettingsError:
    return SettingsError(f"there is no table {place}: there are {', '.join(names)}")


def no_such_column(table: str, name: str, columns: Sequence[str]) -> SettingsError:
    return SettingsError(f"the table {table} has no column {name!r}; it has {', '.join(columns)}")
