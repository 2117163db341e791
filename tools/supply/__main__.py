"""`./run deps`: checks third-party packages, jars and scripts for known vulnerabilities,
unsuitable licences, and versions that are older than a year.

It exits with 1 if a finding has no exception, an exception has expired, or an exception is no
longer needed. Without a network it checks only the list of known vulnerabilities and logs
that.
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kstorm.dev.command_exit import run_command
from tools.supply import advisories, licences, releases
from tools.supply.database import UnreachableError, query_advisories
from tools.supply.parts import all_parts

_ROOT: Final = Path(__file__).parents[2]


def main(argv: Sequence[str] | None = None) -> int:
    """Check everything, print the problems, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="./run deps",
        description=(__doc__ or "").split("\n\n")[0],
        epilog="pip-audit and osv-scanner query the same OSV database. This command does not start "
        "them, because it queries jars and scripts too, and knows this checkout's exceptions.",
    )
    parser.add_argument(
        "--offline",
        action="store_true",
        help="check only the list of known vulnerabilities, without a database",
    )
    options = parser.parse_args(argv)
    parts = all_parts(_ROOT)
    findings = advisories.find(parts, advisories.read_advisories())
    asked = "no database was queried"
    if not options.offline:
        try:
            findings += query_advisories(parts)
            asked = "also by the OSV database"
        except UnreachableError as error:
            asked = f"only the list of known vulnerabilities was checked, because no database responds: {error}"
    exceptions = advisories.read_exceptions()
    today = datetime.now(UTC).date()
    wrong = [
        *advisories.complaints(findings, exceptions, today),
        *licences.complaints(parts, today),
        *releases.complaints(
            releases.pinned(_ROOT), releases.read_releases(), releases.read_old(), today
        ),
    ]
    for line in wrong:
        print(f"kstorm: {line}", file=sys.stderr)
    if not wrong:
        print(
            f"{len(parts)} packages, jars and scripts, no known vulnerability except {len(exceptions)} exceptions; {asked}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(run_command("deps", main))
