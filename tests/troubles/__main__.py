"""`./run troubles`: cause twelve troubles, and measure when the web UI and the command name each."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from kstorm.dev.command_exit import check_report, run_command
from kstorm.errors import KstormError
from tests.troubles.report import Measured, check_page, table, write_json, write_page
from tests.troubles.stage import Stage, open_stage
from tests.troubles.troubles import TROUBLES, Trouble
from tests.troubles.watch import await_calm, watch


def main() -> int:
    """Return the exit code: 0 if everything was named, 1 if not, 2 not run, 130 interrupted."""
    return run_command("kstorm troubles", _run)


def _run() -> int:
    options = _options()
    if options.json is not None:
        check_report(options.json)
    if options.report is not None:
        check_page(options.report)
    console = Console()
    measured = []
    with tempfile.TemporaryDirectory(prefix="kstorm-troubles") as folder:
        place = options.keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        with open_stage(place) as stage:
            for trouble in TROUBLES:
                if options.only and trouble.name not in options.only:
                    continue
                measured.append(_measure(trouble, stage))
                console.print(table(measured[-1:]), soft_wrap=True)
                if measured[-1].problem:
                    console.print(f"  {measured[-1].problem}")
    console.print(table(measured))
    if options.json is not None:
        write_json(measured, options.json)
    if options.report is not None:
        write_page(measured, options.report)
    return 0 if all(each.is_named for each in measured) else 1


def _measure(trouble: Trouble, stage: Stage) -> Measured:
    before = await_calm(stage)
    begun = time.monotonic()
    try:
        with trouble.caused(stage):
            named = watch(stage, trouble.named, begun)
    except KstormError as error:
        return Measured(trouble.name, trouble.says, None, str(error))
    problem = f"before it, the web UI reported: {before}" if before else ""
    return Measured(trouble.name, trouble.says, named, problem)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run troubles", description=__doc__)
    names = [trouble.name for trouble in TROUBLES]
    parser.add_argument("--only", action="append", choices=names, help="one trouble, repeatable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")
    parser.add_argument("--report", type=Path, metavar="PAGE", help="write the table into a page")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep logs and data there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
