"""The definition of a fault, and the order in which faults are drawn.

A fault is a generator. It breaks something, yields what to wait for, repairs it and ends, so it
reads from top to bottom. The run watches the topology meanwhile. If the run ends early, the fault's
`finally` repairs the damage.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.testbed import Testbed
from tests.chaos.tested_topology import TestedTopology


@dataclass(frozen=True, slots=True)
class HoldFor:
    """Keep everything as it is for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HoldUntil:
    """Keep everything as it is until `done()`. The run fails after `within` seconds."""

    done: Callable[[], bool]
    what: str
    within: float = 120.0


Steps = Iterator[HoldFor | HoldUntil]
Injection = Callable[[Testbed, random.Random], Steps]


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    says: str
    """A description in plain words."""
    inject: Injection
    """Something is broken from its first yield on."""
    impossible: Callable[[Testbed], str] = lambda stage: ""
    """Return the reason why the fault is impossible here, or empty."""
    fits: Callable[[TestedTopology], bool] = lambda subject: True
    """Return True if a topology has what the fault breaks."""


def draw(faults: Sequence[Fault], seed: int) -> Iterator[tuple[Fault, random.Random]]:
    """Yield faults without end, each with its own random generator.

    Every fault occurs once in some order, then all again in another. The order depends only on the
    seed and the names.
    """
    order = random.Random(f"{seed}-order")
    number = 0
    while faults:
        for fault in order.sample(faults, len(faults)):
            number += 1
            yield fault, random.Random(f"{seed}-{number}")
