"""Groups equal troubles of many processes into one line, so that an outage is one sentence."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

_MOST_NAMED: Final = 3
_VARIABLE: Final = re.compile(r"\d+(?:[:.]\d+)*")
"""Times and numbers, which may differ between processes with the same trouble."""


class Trouble(msgspec.Struct, frozen=True):
    """A reason, and the processes that have it."""

    said: str
    names: Sequence[str]
    of: int
    """Number of processes of the topology."""

    @property
    def headline(self) -> str:
        """`count-0: …` for up to three processes, `7 of 7 processes: …` for more."""
        if len(self.names) == 1 or len(self.names) <= min(_MOST_NAMED, self.of - 1):
            return f"{', '.join(self.names)}: {self.said}"
        return f"{len(self.names)} of {self.of} processes: {self.said}"


def grouped(troubles: Iterable[tuple[str, str]], of: int) -> list[Trouble]:
    """Group the reasons of processes, given as name and reason; those of most processes first.

    Processes share a trouble if their texts are equal except for times and numbers. The trouble's
    text has the earliest time. `of` is the number of processes of the topology.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for name, why in troubles:
        found.setdefault(_VARIABLE.sub("0", why), []).append((why, name))
    groups = [
        Trouble(min(why for why, _ in group), [name for _, name in group], of)
        for group in found.values()
    ]
    return sorted(groups, key=lambda each: -len(each.names))
