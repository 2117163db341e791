"""Finds known vulnerabilities by the list next to this file, and by the OSV database if it is
reachable.

The list always applies and needs no network. `advisories.toml` names past vulnerabilities and the
versions that fix them, so that no dependency resolution reintroduces them. `exceptions.toml` lists
those without a fix, with a reason and a date after which the check fails again.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, cast

from kstorm.errors import LocalError
from tools.supply.parts import Part, PartKind, numbers

ADVISORIES: Final = Path(__file__).with_name("advisories.toml")
EXCEPTIONS: Final = Path(__file__).with_name("exceptions.toml")


@dataclass(frozen=True, slots=True)
class Advisory:
    """A vulnerability of one component, or of several whose names match a pattern."""

    kind: PartKind
    part: str
    ids: tuple[str, ...]
    fixed: tuple[str, ...]
    """First fixed version of each series. Empty if there is no fix."""

    def concerns(self, part: Part) -> bool:
        """Return True if a component has the vulnerability."""
        if part.kind != self.kind or not fnmatchcase(part.name, self.part):
            return False
        version = numbers(part.version)
        fixes = sorted(map(numbers, self.fixed))
        return not fixes or not (
            version >= fixes[-1] or any(version[:2] == fix[:2] and version >= fix for fix in fixes)
        )


@dataclass(frozen=True, slots=True)
class Allowed:
    """An exception."""

    part: str
    where: str
    ids: tuple[str, ...]
    until: date
    reason: str

    def covers(self, finding: "Finding") -> bool:
        """Return True if it covers all vulnerabilities of a finding."""
        part = finding.part
        return (
            fnmatchcase(part.name, self.part)
            and part.where == self.where
            and {*finding.ids} <= {*self.ids}
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """A component with vulnerabilities."""

    part: Part
    ids: tuple[str, ...]
    fixed: tuple[str, ...] = ()

    def __str__(self) -> str:
        mended = f"mended in {' and '.join(self.fixed)}" if self.fixed else "not known to be mended"
        return f"{self.part} has {', '.join(self.ids)}; {mended}"


def read_advisories(file: Path = ADVISORIES) -> list[Advisory]:
    entries = _entries(file, "advisory")
    return [
        Advisory(each["kind"], each["part"], tuple(each["ids"]), tuple(each["fixed"]))
        for each in entries
    ]


def read_exceptions(file: Path = EXCEPTIONS) -> list[Allowed]:
    entries = _entries(file, "exception")
    return [
        Allowed(each["part"], each["where"], tuple(each["ids"]), each["until"], each["reason"])
        for each in entries
    ]


def find(parts: Iterable[Part], advisories: Sequence[Advisory]) -> list[Finding]:
    """Return the components that are vulnerable according to the list."""
    return [
        Finding(part, advisory.ids, advisory.fixed)
        for part in parts
        for advisory in advisories
        if advisory.concerns(part)
    ]


def complaints(
    findings: Sequence[Finding], exceptions: Sequence[Allowed], today: date
) -> list[str]:
    """Return a line for each finding without an exception, each expired exception, and each
    unneeded one."""
    open_ones = [
        str(finding) for finding in findings if not any(each.covers(finding) for each in exceptions)
    ]
    late = [
        f"the exception for {each.part} in {each.where} ended on {each.until}: mend it, or look at it anew and give it another day"
        for each in exceptions
        if each.until < today
    ]
    idle = [
        f"the exception for {each.part} in {each.where} is for nothing that is there: take it out of {EXCEPTIONS.name}"
        for each in exceptions
        if not any(each.covers(finding) for finding in findings)
    ]
    return [*open_ones, *late, *idle]


def _entries(file: Path, name: str) -> list[dict[str, Any]]:
    try:
        return cast("list[dict[str, Any]]", tomllib.loads(file.read_text()).get(name, []))
    except tomllib.TOMLDecodeError as error:
        raise LocalError(f"{file} cannot be read: {error}") from None
