"""The page with a table per tested topology. A run replaces its own table."""

import time
from pathlib import Path

from kstorm.errors import ConfigError
from tests.e2e.outcome import E2eOutcome


def check_page(page: Path, topology: str) -> None:
    """Raise `ConfigError` if the page has no place for the topology's table."""
    if not page.exists():
        raise ConfigError(f"--report {page}: there is no such page to write into")
    begin, end = _marks(topology)
    _, _, rest = page.read_text(encoding="utf-8").partition(begin)
    if end not in rest:
        raise ConfigError(
            f"--report {page}: the page has no place for the table: write {begin} and {end} where it is to be"
        )


def write_page(outcome: E2eOutcome, page: Path) -> None:
    """Write the table between the markers of its topology. Call `check_page` first."""
    begin, end = _marks(outcome.trial.name)
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    header = [name.replace("\n", " ") for name in outcome.header]
    lines = [f"{time.strftime('%Y-%m-%d')}, {outcome.circumstances}. {outcome.sum()}", ""]
    lines += [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *outcome.rows())]
    page.write_text(before + "\n".join((begin, *lines, end)) + after, encoding="utf-8")


def _marks(topology: str) -> tuple[str, str]:
    return f"<!-- e2e {topology} begins -->", f"<!-- e2e {topology} ends -->"
