"""The options of the short benchmark, and its command line."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.contestants import CONTESTANTS

_ROUNDS: Final = 3
_SENTENCES: Final = 300_000
_MEASURED_SECS: Final = 20


@dataclass(frozen=True, slots=True)
class BenchOptions:
    rounds: int = _ROUNDS
    """Runs of each contestant. The base runs before and after each."""
    sentences: int | None = None
    """Sentences per contestant. Slow ones get fewer. None: 300,000, or 20 s of the rate."""
    rate: float | None = None
    """Sentences per second for measuring latencies. None: all are produced before the start."""
    report: Path | None = None
    """A JSON file for the results."""
    plot: Path | None = None
    """A PNG file for the results."""
    only: str | None = None
    """The contestants to run, comma-separated. None: the default ones."""

    skew: float | None = None
    """The most frequent word's share of all words. None: 11 %."""

    @property
    def asked_sentences(self) -> int:
        """`sentences`, or its default."""
        if self.sentences is not None:
            return self.sentences
        return _SENTENCES if self.rate is None else max(1, int(_MEASURED_SECS * self.rate))


def add_options(parser: argparse.ArgumentParser) -> None:
    names = ",".join(contestant.name for contestant in CONTESTANTS if contestant.is_default)
    others = ",".join(contestant.name for contestant in CONTESTANTS if not contestant.is_default)
    parser.add_argument(
        "--rounds", type=positive, default=_ROUNDS, metavar="N", help=f"default {_ROUNDS}"
    )
    parser.add_argument(
        "--sentences",
        type=positive,
        metavar="N",
        help=f"for each contestant, fewer for a slow one (default {_SENTENCES:,}, or {_MEASURED_SECS} s of the rate)",
    )
    parser.add_argument(
        "--rate",
        type=_rate,
        metavar="R",
        help="send R sentences per second, and measure latencies",
    )
    parser.add_argument(
        "--only",
        metavar="NAME,…",
        help=f"run only these contestants (default {names}; there are also {others})",
    )
    parser.add_argument(
        "--skew",
        type=_share,
        metavar="SHARE",
        help="share of words that are the same word (default 0.11)",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the outcome as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the outcome as a PNG")


def options_of(arguments: argparse.Namespace) -> BenchOptions:
    return BenchOptions(
        **{name: getattr(arguments, name) for name in BenchOptions.__dataclass_fields__}
    )


def positive(text: str) -> int:
    """Parse a whole number of 1 or more. Commas are allowed."""
    try:
        number = int(text.replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return number


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of the words, between 0 and 1")
    return share


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.1 <= rate <= 1e5:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of sentences a second, from 0.1 to 100000"
        )
    return rate
