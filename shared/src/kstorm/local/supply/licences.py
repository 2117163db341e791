"""Under which licences the parts are, and whether these fit: `licences.toml` names each part's, as its authors do.

A part that has no line there is unknown and fails, so that somebody looks before it is taken; one under a licence that is not among
the allowed ones fails too, unless it has an exception with a reason and a day.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from kstorm.local.supply.parts import Kind, Part

LICENCES: Final = Path(__file__).with_name("licences.toml")


@dataclass(frozen=True, slots=True)
class Licences:
    """What the file says: licences by patterns of names, the first that fits wins; and which are allowed."""

    allowed: frozenset[str]
    packages: tuple[tuple[str, str], ...]
    jars: tuple[tuple[str, str], ...]
    scripts: tuple[tuple[str, str], ...]
    exceptions: tuple[tuple[str, date], ...]

    def of(self, kind: Kind, name: str) -> str:
        """The licence of a part, an expression of SPDX's; empty if nobody has looked yet."""
        lines = {"package": self.packages, "jar": self.jars, "script": self.scripts}[kind]
        return next((licence for pattern, licence in lines if fnmatchcase(name, pattern)), "")

    def allows(self, expression: str) -> bool:
        """Whether one of the choices has allowed licences only."""
        choices = (choice.split(" AND ") for choice in expression.split(" OR "))
        return any(self.allowed.issuperset(choice) for choice in choices)


def read(file: Path = LICENCES) -> Licences:
    """Read the file."""
    found = tomllib.loads(file.read_text())
    lines = {
        kind: tuple(
            (pattern, licence) for licence, patterns in found[kind].items() for pattern in patterns
        )
        for kind in ("packages", "jars", "scripts")
    }
    exceptions = tuple((each["part"], each["until"]) for each in found.get("exception", ()))
    return Licences(
        frozenset(found["allowed"]), lines["packages"], lines["jars"], lines["scripts"], exceptions
    )


def complaints(parts: Iterable[Part], today: date, licences: Licences | None = None) -> list[str]:
    """A line for each part whose licence is not known or not allowed, and for each exception past its day."""
    licences = licences or read()
    excepted = {part for part, _ in licences.exceptions}
    wrong = [_complaint(part, licences) for part in parts if part.name not in excepted]
    late = [
        f"the exception for the licence of {part} ended on {until}: look at it anew, in {LICENCES.name}"
        for part, until in licences.exceptions
        if until < today
    ]
    return [*filter(None, wrong), *late]


def _complaint(part: Part, licences: Licences) -> str:
    licence = licences.of(part.kind, part.name)
    if not licence:
        return f"the licence of {part} is not known: look at it, and write it into {LICENCES.name}"
    if not licences.allows(licence):
        return (
            f"{part} is under {licence}, which is not among the allowed licences of {LICENCES.name}"
        )
    return ""
