"""`python -m kstorm.local.bench`, which `./run bench` starts.

Each verb imports what it needs only when it is asked for: a peer is measured, and should not bear the measuring's memory.
"""

import argparse
import sys

from kstorm.local.bench.options import add_options, options_of
from kstorm.local.cli import run_command


def main() -> int:
    """Run what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="./run bench",
        description="Measure kstorm. Without a verb: beside others that count the same words, on one Kafka.",
    )
    add_options(parser)
    parser.set_defaults(run=_short)
    verbs = parser.add_subparsers(title="verbs, with options of their own", metavar="")
    peer = verbs.add_parser("peer", help="be one of the peers of a comparison, until SIGTERM; PEER_* say where")
    peer.set_defaults(run=_peer)
    arguments = parser.parse_args()
    return run_command("kstorm bench", lambda: arguments.run(arguments))


def _short(arguments: argparse.Namespace) -> int:
    from kstorm.local.bench.short import run_short

    return run_short(options_of(arguments))


def _peer(_: argparse.Namespace) -> int:
    from kstorm.local.bench.peer import run_peer

    return run_peer()


if __name__ == "__main__":
    sys.exit(main())
