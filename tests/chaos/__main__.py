"""`python -m tests.chaos`, which `./run chaos` starts."""

import sys

from rich.console import Console

from kstorm.dev.command_exit import check_report, run_command
from tests.chaos.options import FAULTS, parse
from tests.chaos.run import Chaos


def main() -> int:
    """Return the exit code: 0 success, 1 lost or wrong output, 2 not run, 130 interrupted."""
    return run_command("kstorm chaos", _run)


def _run() -> int:
    options = parse()
    if options is None:
        width = max(len(fault.name) for fault in FAULTS)
        print("\n".join(f"{fault.name:{width}}  {fault.says}" for fault in FAULTS))
        return 0
    if options.report is not None:
        check_report(options.report)
    return Chaos(options, Console()).run()


if __name__ == "__main__":
    sys.exit(main())
