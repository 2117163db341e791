"""The table of the troubles, in the terminal, as JSON, and in a page of the documentation."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from rich.table import Table

from kstorm.errors import ConfigError
from tests.troubles.watch import Named, Sighting

BEGIN: Final = "<!-- troubles begin -->"
END: Final = "<!-- troubles end -->"
_MOST_SAID: Final = 160
_HEADER: Final = (
    "trouble",
    "status line, s",
    "its page, s",
    "`status`, s",
    "`causes`, s",
    "named as",
)


class Measured(Struct, frozen=True):
    name: str
    says: str
    named: Named | None
    """None if the trouble could not be caused."""
    problem: str = ""
    """The reason why it could not be caused, or the state before it if that was not calm."""

    @property
    def is_named(self) -> bool:
        """True if one look and one command name it."""
        named = self.named
        return (
            named is not None
            and named.line is not None
            and (named.status is not None or named.causes is not None)
        )


def table(measured: Sequence[Measured]) -> Table:
    found = Table(box=None, header_style="bold", pad_edge=False)
    for name in _HEADER:
        found.add_column(name.replace("`", ""), no_wrap=True, overflow="ellipsis")
    for each in measured:
        found.add_row(*_row(each))
    return found


def write_json(measured: Sequence[Measured], file: Path) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(measured)) + b"\n")


def check_page(page: Path) -> None:
    """Raise `ConfigError` if the page has no place for the table."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    if END not in text.partition(BEGIN)[2]:
        raise ConfigError(f"--report {page}: write {BEGIN} and {END} where the table is to be")


def write_page(measured: Sequence[Measured], page: Path) -> None:
    """Replace the table in the page. Call `check_page` first."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    header = ("trouble", "what was done", *_HEADER[1:])
    rows = [(each.name, each.says, *_row(each)[1:]) for each in measured]
    lines = [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]
    text = "\n".join((BEGIN, f"Measured on {time.strftime('%Y-%m-%d')}.", "", *lines, END))
    page.write_text(before + text + after, encoding="utf-8")


def _row(each: Measured) -> tuple[str, ...]:
    named = each.named
    if named is None:
        return (each.name, "–", "–", "–", "–", f"not caused: {each.problem}")
    said = named.line or named.page or named.causes or named.status
    return (
        each.name,
        *map(_secs, (named.line, named.page, named.status, named.causes)),
        said.said.replace("|", "/")[:_MOST_SAID] if said else "",
    )


def _secs(sighting: Sighting | None) -> str:
    return "not named" if sighting is None else f"{sighting.secs:.1f}"
