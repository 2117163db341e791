"""The options of a chaos run, and its command line."""

import argparse
import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kstorm.errors import ConfigError
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE, GUARANTEES
from tests.chaos.brokers import COUNTS
from tests.chaos.disks import DISK_FAULTS
from tests.chaos.faults import Fault
from tests.chaos.outages import OUTAGES
from tests.chaos.poison import POISONS
from tests.chaos.processes import KILLS, PROCESS_FAULTS
from tests.chaos.tested_topology import ALL_STREAMS, SUBJECTS, WORD_COUNT, TestedTopology

FAULTS: Final = [*PROCESS_FAULTS, *OUTAGES, *DISK_FAULTS, *POISONS]
_MINUTES: Final = 10.0
_RATE: Final = 200_000 / (30 * 60)
_SHORT_RATE: Final = 60.0
_REPORT: Final = (
    Path(__file__).parents[2] / "docs" / "concepts" / "reliability.md"
)  # in the checkout


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    minutes: float
    """Duration in which faults are drawn. A started fault is finished."""
    rate: float
    """Messages per second."""
    seed: int
    """Determines the order and the targets of the faults."""
    faults: tuple[Fault, ...]
    """The faults to draw from."""
    short: bool
    """True if each fault happens exactly once."""
    report: Path | None
    """A file for the result, or None."""
    report_asked: bool
    """True if the user named that file."""
    command: str
    """The command line that repeats the run."""
    guarantee: str = AT_LEAST_ONCE
    """The topology's `topology_processing_guarantee`."""
    brokers: int = 1
    """Number of Kafka brokers. If three, all have all partitions, and two must be in sync."""
    topology: str = WORD_COUNT
    """Name of the topology under test."""

    @property
    def subject(self) -> TestedTopology:
        return SUBJECTS[self.topology]

    @property
    def exactly_once(self) -> bool:
        """True if a duplicate output is a fault."""
        return self.guarantee == EXACTLY_ONCE

    @property
    def messages(self) -> int:
        """Minimum number of messages."""
        return math.ceil(self.rate * self.minutes * 60)

    @property
    def message_timeout_secs(self) -> float:
        """Timeout of trees: a bit longer than a process's restart, because all wait for it."""
        return 8.0 if self.short else 12.0


def parse(arguments: list[str] | None = None) -> ChaosOptions | None:
    """Parse a command line. None for `--list`. Raises `ConfigError`, or exits like argparse."""
    given = _parser().parse_args(arguments)
    if given.list:
        return None
    minutes = 1.0 if given.short else given.minutes
    rate = _SHORT_RATE if given.short else _RATE
    if given.messages is not None:
        rate = given.messages / (minutes * 60)
    seed = random.randrange(10**6) if given.seed is None else given.seed
    subject = SUBJECTS[given.topology]
    usual = EXACTLY_ONCE if subject.once_only else AT_LEAST_ONCE
    guarantee = (given.guarantee or usual).replace("-", "_")
    if subject.once_only and guarantee != EXACTLY_ONCE:
        raise ConfigError(
            f"--guarantee {given.guarantee}: the topology {subject.name!r} is processed exactly once; leave it away"
        )
    everything = not given.short and given.faults is None and given.brokers == 1
    everything &= subject.name in (WORD_COUNT, ALL_STREAMS)
    command = [
        "./run chaos",
        "--short" if given.short else f"--minutes {minutes:g}",
        f"--seed {seed}",
    ]
    command += [f"--topology {subject.name}"] * (subject.name != WORD_COUNT)
    command += [f"--guarantee {given.guarantee}"] * (guarantee != usual)
    command += [f"--brokers {given.brokers}"] * (given.brokers != 1)
    command += [f"--messages {given.messages}"] * (given.messages is not None)
    command += [f"--faults {given.faults}"] * (given.faults is not None)
    return ChaosOptions(
        minutes=minutes,
        rate=rate,
        seed=seed,
        faults=_drawn(given, subject),
        short=given.short,
        report=given.report or (_REPORT if everything else None),
        report_asked=given.report is not None,
        command=" ".join(command),
        guarantee=guarantee,
        brokers=given.brokers,
        topology=subject.name,
    )


def faults_of(subject: TestedTopology) -> list[Fault]:
    return [fault for fault in FAULTS if fault.fits(subject)]


def _drawn(given: argparse.Namespace, subject: TestedTopology) -> tuple[Fault, ...]:
    fitting = faults_of(subject)
    if given.faults:
        return _named(given.faults, fitting)
    return tuple(fault for fault in fitting if fault in KILLS or not given.short)


def _named(names: str, fitting: list[Fault]) -> tuple[Fault, ...]:
    known = {fault.name: fault for fault in fitting}
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if name not in known:
            raise ConfigError(
                f"--faults {names}: there is no fault {name!r} for this topology; `./run chaos --list` shows all"
            )
    return tuple(known[name] for name in asked)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./run chaos",
        description="Break a topology on real servers in every way, again and again, while messages flow; then compare all"
        " that came out with all that went in. Exit code 1 if a message is lost or an output is wrong.",
    )
    parser.add_argument(
        "--minutes",
        type=_positive,
        default=_MINUTES,
        metavar="N",
        help=f"minutes of random faults (default {_MINUTES:g})",
    )
    parser.add_argument(
        "--seed", type=int, metavar="K", help="seed of the order of faults (default: a random one)"
    )
    parser.add_argument(
        "--messages",
        type=_count,
        metavar="N",
        help=f"number of messages, spread over these minutes (default {_RATE:.0f} a second, which is 200,000 in half an hour)",
    )
    parser.add_argument(
        "--topology",
        choices=list(SUBJECTS),
        default=WORD_COUNT,
        help="the topology under test: a word count and a diamond (the default), Trident's word count, sliding windows of"
        " event time, a join, or all: the last three as branches of one topology",
    )
    parser.add_argument("--faults", metavar="NAME,…", help="use only these faults")
    parser.add_argument(
        "--guarantee",
        choices=[name.replace("_", "-") for name in GUARANTEES],
        help="guarantee of the topology (default at-least-once; the other topologies are exactly-once). With exactly-once,"
        " duplicate output is an error too",
    )
    parser.add_argument(
        "--brokers",
        type=int,
        choices=COUNTS,
        default=1,
        help="number of Kafka brokers (default 1). With three, one may be down",
    )
    parser.add_argument("--list", action="store_true", help="list the faults and exit")
    parser.add_argument(
        "--short",
        action="store_true",
        help="cause each fault of --faults once (default: each kind of SIGKILL)",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write the outcome as Markdown (default docs/concepts/reliability.md, next to the other guarantee,"
        " if every fault was drawn; else none)",
    )
    return parser


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1e5:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes above 0")
    return number


def _count(text: str) -> int:
    try:
        number = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return number
