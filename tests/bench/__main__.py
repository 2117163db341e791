"""`python -m tests.bench`, which `./run bench` starts.

Each verb imports only what it needs: a peer is measured, and must not include the memory of the
benchmark itself.
"""

import argparse
import json
import sys
from pathlib import Path

from kstorm.dev.command_exit import run_command
from kstorm.errors import ConfigError
from tests.bench.options import add_options, options_of, positive


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run bench",
        description="Measure kstorm. Without a verb: beside others that count the same words, on one Kafka.",
    )
    add_options(parser)
    parser.set_defaults(run=_short)
    verbs = parser.add_subparsers(title="verbs, with options of their own", metavar="")
    peer = verbs.add_parser(
        "peer", help="run one peer of a comparison until SIGTERM; PEER_* contain its addresses"
    )
    peer.set_defaults(run=_peer)
    micro = verbs.add_parser(
        "micro", help="measure the parts of the core, in µs and as ratios to a plain loop"
    )
    micro.add_argument(
        "--compare", action="store_true", help="show the change against the committed baseline"
    )
    micro.add_argument("--save", action="store_true", help="make these figures the baseline")
    micro.set_defaults(run=_micro)
    growth = verbs.add_parser(
        "growth", help="measure how cost grows with tuples per tree, bytes, tasks and open trees"
    )
    growth.add_argument("--report", type=Path, metavar="FILE", help="write the outcome as JSON")
    growth.add_argument("--plot", type=Path, metavar="FILE", help="write the outcome as a PNG")
    growth.set_defaults(run=_growth)
    windows = verbs.add_parser(
        "windows",
        help="measure windows of any length: µs per tuple, and memory of a million open windows",
    )
    windows.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="tuples, sums, sessions, closing or overlapping; default all",
    )
    windows.add_argument("--report", type=Path, metavar="FILE", help="write the outcome as JSON")
    windows.set_defaults(run=_windows)
    spout = verbs.add_parser(
        "spout",
        help="measure the CPU time in µs that a spout's process needs to read and emit a message",
    )
    spout.add_argument(
        "--messages", type=positive, default=1_000_000, metavar="N", help="default 1,000,000"
    )
    spout.add_argument(
        "--rounds",
        type=positive,
        default=3,
        metavar="N",
        help="default 3, tracked and untracked each",
    )
    spout.add_argument("--report", type=Path, metavar="FILE", help="write the outcome as JSON")
    spout.set_defaults(run=_spout)
    footprint = verbs.add_parser(
        "footprint", help="measure CPU, threads and memory of an idle topology"
    )
    footprint.add_argument(
        "--tasks", type=positive, default=12, metavar="N", help="tasks per component; default 12"
    )
    footprint.add_argument(
        "--guarantee",
        choices=["at-least-once", "exactly-once"],
        default="at-least-once",
        help="default at-least-once",
    )
    footprint.add_argument(
        "--seconds", type=positive, default=30, metavar="N", help="measured; default 30"
    )
    footprint.add_argument("--report", type=Path, metavar="FILE", help="write the outcome as JSON")
    footprint.set_defaults(run=_footprint)
    pipeline = verbs.add_parser(
        "pipeline", help="compare the Spark pipeline with a plain PySpark job, as ratios"
    )
    pipeline.add_argument(
        "--records", type=positive, default=720_000, metavar="N", help="default 720,000"
    )
    pipeline.add_argument(
        "--rounds", type=positive, default=2, metavar="N", help="rounds of each job; default 2"
    )
    pipeline.add_argument("--report", type=Path, metavar="FILE", help="write the outcome as JSON")
    pipeline.set_defaults(run=_pipeline)
    flat = verbs.add_parser(
        "flat", help="measure a batch of the Spark pipeline on empty and on full tables"
    )
    flat.add_argument(
        "--rows",
        type=positive,
        default=10_000_000,
        metavar="N",
        help="rows of the full tables; default 10,000,000",
    )
    flat.add_argument(
        "--batch", type=positive, default=100_000, metavar="N", help="records; default 100,000"
    )
    flat.add_argument(
        "--rounds",
        type=positive,
        default=5,
        metavar="N",
        help="rounds of each kind of batch; default 5",
    )
    flat.add_argument("--report", type=Path, metavar="FILE", help="write the outcome as JSON")
    flat.set_defaults(run=_flat)
    trace = verbs.add_parser(
        "trace", help="measure kstorm why and kstorm trace during and after full load"
    )
    trace.add_argument(
        "--minutes", type=float, default=5.0, metavar="N", help="minutes of full load; default 5"
    )
    trace.add_argument("--report", type=Path, metavar="FILE", help="write the outcome as JSON")
    trace.set_defaults(run=_trace)
    arguments = parser.parse_args()
    return run_command("kstorm bench", lambda: arguments.run(arguments))


def _short(arguments: argparse.Namespace) -> int:
    from tests.bench.short import run_short

    return run_short(options_of(arguments))


def _peer(_: argparse.Namespace) -> int:
    from tests.bench.peer import run_peer

    return run_peer()


def _micro(arguments: argparse.Namespace) -> int:
    import pytest

    tests = Path(__file__).parent  # tests in the checkout produce the figures
    options = [f"--{name}" for name in ("compare", "save") if getattr(arguments, name)]
    return int(
        pytest.main([str(tests), "-q", "--benchmark-columns=min", "--benchmark-quiet", *options])
    )


def _growth(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from tests.bench.growth import measure_growth, plot_growth

    found = measure_growth(Console())
    if arguments.report is not None:
        arguments.report.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.plot is not None:
        plot_growth(found, arguments.plot)
    return 0


def _windows(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from tests.bench.windows import SWEEPS, measure_windows

    if wrong := set(arguments.only or ()) - SWEEPS.keys():
        raise ConfigError(f"--only {sorted(wrong)[0]}: give one of {', '.join(SWEEPS)}")
    found = measure_windows(Console(), arguments.only or ())
    if arguments.report is not None:
        arguments.report.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _spout(arguments: argparse.Namespace) -> int:
    from tests.bench.spout import run_spout

    return run_spout(arguments.messages, arguments.rounds, arguments.report)


def _footprint(arguments: argparse.Namespace) -> int:
    from tests.bench.footprint import run_footprint

    return run_footprint(arguments.tasks, arguments.guarantee, arguments.seconds, arguments.report)


def _pipeline(arguments: argparse.Namespace) -> int:
    from tests.bench.spark.contest import run_pipeline

    return run_pipeline(arguments.records, arguments.rounds, arguments.report)


def _flat(arguments: argparse.Namespace) -> int:
    from tests.bench.spark.flat import run_flat

    return run_flat(arguments.rows, arguments.batch, arguments.rounds, arguments.report)


def _trace(arguments: argparse.Namespace) -> int:
    from tests.bench.trace import run_trace

    return run_trace(arguments.minutes, arguments.report)


if __name__ == "__main__":
    sys.exit(main())
