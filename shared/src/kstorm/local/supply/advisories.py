"""Which parts have known holes: by the list beside this file, and by the OSV database where it can be reached.

The list is what always counts, without any network: `advisories.toml` names what was bad once and where it is mended, so that no
resolution brings it back. What cannot be mended yet is in `exceptions.toml`, with a reason and a day after which it fails again.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, cast

from kstorm.errors import LocalError
from kstorm.local.supply.parts import Kind, Part, numbers

ADVISORIES: Final = Path(__file__).with_name("advisories.toml")
EXCEPTIONS: Final = Path(__file__).with_name("exceptions.toml")


@dataclass(frozen=True, slots=True)
class Advisory:
    """What is known of one part, or of several whose names have a pattern."""

    kind: Kind
    part: str
    ids: tuple[str, ...]
    fixed: tuple[str, ...]
    """The first good version of each series that was mended; none: it never was."""

    def concerns(self, part: Part) -> bool:
        """Whether a part has the hole."""
        if part.kind != self.kind or not fnmatchcase(part.name, self.part):
            return False
        version = numbers(part.version)
        fixes = sorted(map(numbers, self.fixed))
        return not fixes or not (
            version >= fixes[-1] or any(version[:2] == fix[:2] and version >= fix for fix in fixes)
        )


@dataclass(frozen=True, slots=True)
class Allowed:
    """One exception."""

    part: str
    where: str
    ids: tuple[str, ...]
    until: date
    reason: str

    def covers(self, finding: "Finding") -> bool:
        """Whether it speaks of all that was found of a part."""
        part = finding.part
        return (
            fnmatchcase(part.name, self.part)
            and part.where == self.where
            and {*finding.ids} <= {*self.ids}
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """A part with holes."""

    part: Part
    ids: tuple[str, ...]
    fixed: tuple[str, ...] = ()

    def __str__(self) -> str:
        mended = f"mended in {' and '.join(self.fixed)}" if self.fixed else "not known to be mended"
        return f"{self.part} has {', '.join(self.ids)}; {mended}"


def read_advisories(file: Path = ADVISORIES) -> list[Advisory]:
    """The list of known holes."""
    entries = _entries(file, "advisory")
    return [
        Advisory(each["kind"], each["part"], tuple(each["ids"]), tuple(each["fixed"]))
        for each in entries
    ]


def read_exceptions(file: Path = EXCEPTIONS) -> list[Allowed]:
    """The list of exceptions."""
    entries = _entries(file, "exception")
    return [
        Allowed(each["part"], each["where"], tuple(each["ids"]), each["until"], each["reason"])
        for each in entries
    ]


def find(parts: Iterable[Part], advisories: Sequence[Advisory]) -> list[Finding]:
    """The parts that the list knows to be bad."""
    return [
        Finding(part, advisory.ids, advisory.fixed)
        for part in parts
        for advisory in advisories
        if advisory.concerns(part)
    ]


def complaints(
    findings: Sequence[Finding], exceptions: Sequence[Allowed], today: date
) -> list[str]:
    """A line for each finding without an exception, for each exception past its day, and for each that nothing needs any more."""
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
