"""What a fault is, and the order in which faults are drawn.

A fault is a generator. It breaks something, yields what it waits for, mends it and ends, so that it reads from top to
bottom. The run watches the topology meanwhile. If the run ends early, the fault's `finally` mends what is broken.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.stage import Stage
from tests.chaos.subject import Subject


@dataclass(frozen=True, slots=True)
class Hold:
    """Things stay as they are for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Until:
    """Things stay as they are until `done()`; the run fails if that takes longer than `within` seconds."""

    done: Callable[[], bool]
    what: str
    within: float = 120.0


Steps = Iterator[Hold | Until]
Deed = Callable[[Stage, random.Random], Steps]


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    says: str
    """What is done, in plain words."""
    deed: Deed
    """From the first thing that it yields on, something is broken."""
    impossible: Callable[[Stage], str] = lambda stage: ""
    """Why it cannot be done here; empty if it can."""
    fits: Callable[[Subject], bool] = lambda subject: True
    """Whether a topology has what it breaks."""


def draw(faults: Sequence[Fault], seed: int) -> Iterator[tuple[Fault, random.Random]]:
    """Faults without end, each with the chance that it may take: every one once in some order, then all in another.

    A function of the seed and the names alone.
    """
    order = random.Random(f"{seed}-order")
    number = 0
    while faults:
        for fault in order.sample(faults, len(faults)):
            number += 1
            yield fault, random.Random(f"{seed}-{number}")
