"""Recovers a table in its own process.

It prints the number of records, and the memory before and at the peak.
"""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.integration.recovering import make_table

STATUS = Path("/proc/self/status")


def most_memory() -> int:
    """Return the peak of the resident memory in bytes."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


async def recover(bootstrap: str, changelog: str, folder: str) -> None:
    """Open partition 0."""
    kafka: Any = SimpleNamespace(bootstrap=bootstrap)
    table = make_table(kafka, Path(folder), changelog)
    before = most_memory()
    records = (await table.open(0)).records
    table.close(0)
    print(records, before, most_memory())


if __name__ == "__main__":
    asyncio.run(recover(*sys.argv[1:]))
