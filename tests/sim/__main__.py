"""`python -m tests.sim`, which `./run sim` starts."""

import argparse
import logging
import os
from pathlib import Path

from rich.console import Console

from kstorm.dev.command_exit import run_command


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run sim",
        description="Run random topologies through random faults, in memory, and check that no message is lost (or counts twice).",
    )
    parser.add_argument(
        "--seeds",
        type=_positive,
        default=10_000,
        metavar="N",
        help="number of schedules (default 10,000)",
    )
    parser.add_argument(
        "--first", type=int, default=0, metavar="SEED", help="the first of them (default 0)"
    )
    parser.add_argument("--seed", type=int, metavar="SEED", help="replay only this schedule")
    parser.add_argument(
        "--guarantee",
        choices=["at-least-once", "exactly-once"],
        default="at-least-once",
        help="processing guarantee of the topologies (default at-least-once)",
    )
    parser.add_argument(
        "--trace", action="store_true", help="with --seed: print every step of the schedule"
    )
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="switch off each rule in turn, and search for a schedule that shows it",
    )
    parser.add_argument(
        "--workers",
        type=_positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes (default: as many as CPUs)",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the outcome as a page, in Markdown"
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="store progress in this file, and continue from it after an interruption",
    )
    arguments = parser.parse_args()
    if arguments.trace and arguments.seed is None:
        parser.error("--trace prints one schedule: name it with --seed")
    # Thousands of simulated spouts would log warnings about their faults.
    logging.disable(logging.CRITICAL)
    return run_command("kstorm sim", lambda: _run(arguments))


def _run(arguments: argparse.Namespace) -> int:
    console = Console()
    if arguments.seed is not None:
        from tests.sim.replay import replay

        return replay(arguments.seed, arguments.trace, console, arguments.guarantee)
    if arguments.mutants:
        from tests.sim.hunt import hunt

        return hunt(arguments.workers, arguments.report, console, arguments.guarantee)
    from tests.sim.sweep import run_many

    seeds = range(arguments.first, arguments.first + arguments.seeds)
    return run_many(
        seeds, arguments.workers, arguments.report, console, arguments.resume, arguments.guarantee
    )


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())
