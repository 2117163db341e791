"""`python -m kstorm.local.bench`, which `./run bench` starts."""

import argparse
import sys

from kstorm.local.bench.peer import run_peer
from kstorm.local.cli import run_command


def main() -> int:
    """Run what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="./run bench", description="Measure kstorm.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("peer", help="be one of the peers of a comparison, until SIGTERM; PEER_* say where")
    parser.parse_args()
    return run_command("kstorm bench", run_peer)


if __name__ == "__main__":
    sys.exit(main())
