"""`python -m kstorm.dev.demo`, which `kstorm demo` starts."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kstorm.dev.command_exit import check_report, run_command
from kstorm.dev.demo.options import DemoOptions
from kstorm.topology.config import EXACTLY_ONCE, GUARANTEES

_SENTENCES: Final = 10_000


def main(words: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code.

    It is 0 if all results are correct, and 1 if something is lost or wrong. It is 2 if the demo
    could not run, and 130 after an interruption.
    """
    options = _options(words)
    return run_command("kstorm demo", lambda: _run(options))


def _run(options: DemoOptions) -> int:
    # These imports take a second. They are inside the function, so that Ctrl-C already works during
    # this second.
    from kstorm.dev.demo.run import Demo
    from kstorm.runtime.base.terminal import Screen

    if options.report is not None:
        check_report(options.report)
    return Demo(options, Screen()).run()


def _options(words: Sequence[str] | None) -> DemoOptions:
    parser = argparse.ArgumentParser(
        prog="kstorm demo",
        description="Counts words from a Kafka topic to a Spark table. Every tuple tree is tracked, an acker and a counting"
        " process are killed halfway, and the result is compared with an independent count of the input.",
    )
    parser.add_argument(
        "--sentences",
        type=_positive,
        default=_SENTENCES,
        metavar="N",
        help=f"the number of sentences to produce (default {_SENTENCES:,})",
    )
    parser.add_argument(
        "--guarantee",
        type=_guarantee,
        default=EXACTLY_ONCE,
        metavar="exactly-once|at-least-once",
        help="the topology's guarantee (default exactly-once)",
    )
    parser.add_argument("--no-break", dest="killing", action="store_false", help="kills no process")
    parser.add_argument("--no-page", dest="page", action="store_false", help="starts no web UI")
    parser.add_argument("--report", type=Path, metavar="FILE", help="writes the result as JSON")
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="uses your own Kafka instead of an embedded one"
    )
    parser.add_argument(
        "--zookeeper",
        metavar="HOST:PORT",
        help="uses your own ZooKeeper instead of an embedded one",
    )
    parser.add_argument(
        "--workdir",
        type=Path,
        metavar="DIR",
        help="the folder for the logs and tables of runs (default .kstorm/runs)",
    )
    return DemoOptions(**vars(parser.parse_args(words)))


def _guarantee(text: str) -> str:
    guarantee = text.replace("-", "_")
    if guarantee not in GUARANTEES:
        raise argparse.ArgumentTypeError(f"{text} is neither exactly-once nor at-least-once")
    return guarantee


def _positive(text: str) -> int:
    number = int(text.replace("_", "").replace(",", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
