"""The contestants: kstorm, a plain loop and plain Faust.

On request, kstorm as a first topology uses it (`tests.bench.plain`), Kafka Streams, Storm, and
Trident and the same wired by hand run too.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kstorm.errors import ConfigError

BASE: Final = "loop"
"""The contestant that ratios refer to."""
BY_HAND: Final = "by-hand"
"""The base if the loop does not run."""

_FEWEST: Final = 1000
"""Sentences that a slow contestant gets if the others get as many."""


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    command: tuple[str, ...]
    """The arguments of Python."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to its `RunParameters`."""
    slowness: int = 1
    """It gets one sentence for this many that the others get, because more would take too long."""

    is_default: bool = True
    """True if it runs without a request."""
    is_by_batch: bool = False
    """True if it writes a record for each word of a batch, `<count>` without an id.

    The number of records is then unknown.
    """

    @property
    def arguments(self) -> Sequence[str]:
        return (sys.executable, *self.command)

    def sentences(self, asked: int) -> int:
        """Return the number of sentences that it gets if `asked` were requested."""
        return min(asked, max(_FEWEST, asked // self.slowness))


CONTESTANTS: Final = (
    Contestant(BASE, ("-m", "tests.bench.plain_loop")),
    Contestant("kstorm", ("-m", "tests.bench", "peer")),
    Contestant("kstorm-untracked", ("-m", "tests.bench", "peer"), {"KSTORM_ACKERS": "0"}),
    Contestant("kstorm-state", ("-m", "tests.bench", "peer"), {"KSTORM_STATE": "1"}),
    Contestant(
        "kstorm-exactly-once",
        ("-m", "tests.bench", "peer"),
        {"KSTORM_STATE": "1", "KSTORM_GUARANTEE": "exactly-once"},
    ),
    Contestant("faust", ("-m", "tests.bench.plain_faust"), slowness=50),
    *(
        Contestant(
            f"kstorm-plain{name}",
            ("-m", "tests.bench", "peer"),
            {"KSTORM_BENCH_TOPOLOGY": "tests.bench.plain:topology", **variables},
            is_default=False,
        )
        for name, variables in (
            ("", {}),
            ("-1", {"KSTORM_TASKS": "1"}),
            ("-64", {"KSTORM_TASKS": "64"}),
            ("-exactly-once", {"KSTORM_GUARANTEE": "exactly-once"}),
        )
    ),
    *(
        Contestant(name, ("-m", "tests.bench.java_program", program), variables, is_default=False)
        for name, program, variables in (
            ("kafka-streams", "kafka-streams", {}),
            ("kafka-streams-exactly-once", "kafka-streams", {"PEER_GUARANTEE": "exactly-once"}),
            ("storm", "storm", {}),
        )
    ),
    *(
        Contestant(
            name,
            ("-m", "tests.bench", "peer"),
            {
                "KSTORM_GUARANTEE": "exactly-once",
                "KSTORM_BENCH_TOPOLOGY": f"tests.bench.trident:{function}",
            },
            is_default=False,
            is_by_batch=True,
        )
        for name, function in (
            (BY_HAND, "by_hand"),
            ("trident", "trident"),
            ("trident-uncombined", "uncombined"),
        )
    ),
)


def choose(names: str | None) -> tuple[Contestant, ...]:
    """Return the contestants of a comma-separated list in their fixed order, or the default ones.

    Raises `ConfigError` for an unknown contestant.
    """
    if names is None:
        return tuple(contestant for contestant in CONTESTANTS if contestant.is_default)
    wanted = [name.strip() for name in names.split(",")]
    known = [contestant.name for contestant in CONTESTANTS]
    if unknown := [name for name in wanted if name not in known]:
        raise ConfigError(
            f"--only {names}: there is no contestant {unknown[0]!r}, only {', '.join(known)}"
        )
    return tuple(contestant for contestant in CONTESTANTS if contestant.name in wanted)


def base_of(names: Collection[str]) -> str | None:
    """Return the contestant among these that ratios refer to."""
    return next((name for name in (BASE, BY_HAND) if name in names), None)
