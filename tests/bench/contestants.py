"""Who takes part in the benchmark: kstorm, a plain loop, plain Faust."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kstorm.errors import ConfigError

BASE: Final = "loop"
"""The contestant that ratios are to."""

_FEWEST: Final = 1000
"""Sentences that a slow contestant gets if the others get as many."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to count words."""

    name: str
    command: tuple[str, ...]
    """The arguments of Python."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it gets besides its `Terms`."""
    slowness: int = 1
    """It gets one sentence where the others get so many, since more would take too long."""

    @property
    def arguments(self) -> Sequence[str]:
        return (sys.executable, *self.command)

    def sentences(self, asked: int) -> int:
        """How many sentences it gets when `asked` were asked for."""
        return min(asked, max(_FEWEST, asked // self.slowness))


CONTESTANTS: Final = (
    Contestant(BASE, ("-m", "tests.bench.loop")),
    Contestant("kstorm", ("-m", "tests.bench", "peer")),
    Contestant("kstorm-untracked", ("-m", "tests.bench", "peer"), {"KSTORM_ACKERS": "0"}),
    Contestant("kstorm-state", ("-m", "tests.bench", "peer"), {"KSTORM_STATE": "1"}),
    Contestant(
        "kstorm-exactly-once",
        ("-m", "tests.bench", "peer"),
        {"KSTORM_STATE": "1", "KSTORM_GUARANTEE": "exactly-once"},
    ),
    Contestant("faust", ("-m", "tests.bench.plain_faust"), slowness=50),
)


def choose(names: str | None) -> tuple[Contestant, ...]:
    """The contestants of a comma-separated list in their fixed order, all without one.

    Raises `ConfigError` if there is no such contestant.
    """
    if names is None:
        return CONTESTANTS
    wanted = [name.strip() for name in names.split(",")]
    known = [contestant.name for contestant in CONTESTANTS]
    if unknown := [name for name in wanted if name not in known]:
        raise ConfigError(f"--only {names}: there is no contestant {unknown[0]!r}, only {', '.join(known)}")
    return tuple(contestant for contestant in CONTESTANTS if contestant.name in wanted)
