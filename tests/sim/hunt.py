"""Switches each rule off in turn, and counts the schedules until that is noticed."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.sim.event_time_mutants import mutants as event_time_mutants
from tests.sim.exactly_once.mutants import mutants as exactly_once_mutants
from tests.sim.guarantees import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.sim.mutant import Mutant, remember_seeds
from tests.sim.mutants import mutants


def _at_least_once_mutants() -> list[Mutant]:
    return [*mutants(), *event_time_mutants()]


_MUTANTS: Final[dict[str, Callable[[], list[Mutant]]]] = {
    AT_LEAST_ONCE: _at_least_once_mutants,
    EXACTLY_ONCE: exactly_once_mutants,
}


def hunt(workers: int, page: Path | None, console: Console, kind: str) -> int:
    """Hunt every mutant and print the seeds it took. Return 1 if one is not found in time."""
    table = Table("rule that is switched off", "seeds until noticed", "how it shows")
    rows = [
        "| rule that is switched off | seeds until noticed | how it shows |",
        "| --- | --- | --- |",
    ]
    missed = 0
    noticed: dict[str, int] = {}
    with (
        console.status("hunting mutants"),
        ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_silence) as pool,
    ):
        own = _MUTANTS[kind]()
        for mutant, found in zip(own, pool.map(partial(_hunt, kind), range(len(own))), strict=True):
            missed += found is None
            seeds, how = f"not within {mutant.within}", ""
            if found is not None:
                seeds, how = str(found[0] + 1), _shortly(found[1])
                noticed[mutant.rule] = found[0]
            table.add_row(mutant.rule, seeds, how)
            rows.append(f"| {mutant.rule} | {seeds} | {how} |")
            console.print(f"{mutant.rule}: {seeds}")
    remember_seeds(noticed)
    console.print(table)
    if page is not None:
        page.write_text("\n".join(rows) + "\n")
    return 1 if missed else 0


def _hunt(kind: str, number: int) -> tuple[int, str] | None:
    return _MUTANTS[kind]()[number].hunt()


def _shortly(violation: str) -> str:
    text = violation.split(";")[0].removeprefix("seed ").partition(": ")[2] or violation
    return text if len(text) <= 110 else f"{text[:109]}…"


def _silence() -> None:
    import logging

    logging.disable(logging.CRITICAL)
