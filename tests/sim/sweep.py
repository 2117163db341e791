"""Runs many schedules on all processors, and reports what occurred."""

import gc
import time
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kstorm.testing.world import discard_narration
from tests.sim import ViolationError
from tests.sim.coverage import traced
from tests.sim.guarantees import AT_LEAST_ONCE, GUARANTEES
from tests.sim.journal import RunJournal
from tests.sim.outcome import SimOutcome
from tests.sim.page import print_outcome, write_page

_CHUNK: Final = 100
"""Schedules that a worker runs at a time."""
_MOST_TRACED: Final = 1000
"""The most schedules to trace. That takes ten times as long, and a thousand reveal rare lines."""
_SAVED_EVERY_SECS: Final = 30.0
_MOST_VIOLATIONS: Final = 10
_LINE_SECS: Final = 10.0
"""Seconds between two progress lines without a terminal."""


def run_many(
    seeds: Sequence[int],
    workers: int,
    page: Path | None,
    console: Console,
    resume: Path | None = None,
    kind: str = AT_LEAST_ONCE,
) -> int:
    """Run the schedules of these seeds and print the results. Return 1 if the guarantee is broken.

    Schedules that the file `resume` already has are skipped.
    """
    journal = RunJournal(resume, seeds, kind)
    with _progress(len(seeds), console) as show:
        outcome = sweep(seeds, workers, show, journal)
    print_outcome(outcome, workers, console)
    if page is not None:
        write_page(outcome, seeds, workers, page)
    return 1 if outcome.violations else 0


@contextmanager
def _progress(total: int, console: Console) -> Iterator[Callable[[SimOutcome], object]]:
    """Yield a function that shows progress: a bar on a terminal, otherwise a line at times."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    next_line = time.monotonic() + _LINE_SECS

    def show(outcome: SimOutcome) -> None:
        nonlocal next_line
        rate = f"{outcome.schedules / outcome.seconds:.0f}/s"
        progress.update(bar, completed=outcome.schedules, rate=rate)
        if progress.disable and time.monotonic() >= next_line:
            next_line = time.monotonic() + _LINE_SECS
            console.print(f"{outcome.schedules:,} of {total:,} schedules, {rate}", highlight=False)

    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task("schedules", total=total, rate="")
        yield show


def sweep(
    seeds: Sequence[int],
    workers: int,
    show: Callable[[SimOutcome], object] = lambda outcome: None,
    journal: RunJournal | None = None,
) -> SimOutcome:
    """Run the schedules of these seeds on `workers` processes, until ten have broken the guarantee.

    `show` is called whenever a part was added to the outcome.
    """
    kept = journal or RunJournal(None, seeds)
    outcome = kept.outcome
    before, began, saved = outcome.seconds, time.monotonic(), time.monotonic()
    try:
        for first, part in _parts(outcome.kind, seeds, workers, kept.done):
            kept.add(first, part)
            now = time.monotonic()
            outcome.seconds = before + now - began
            show(outcome)
            if len(outcome.violations) >= _MOST_VIOLATIONS:
                break
            if now - saved > _SAVED_EVERY_SECS:
                kept.save()
                saved = now
    finally:
        kept.save()
    return outcome


def _parts(
    kind: str, seeds: Sequence[int], workers: int, done: Container[int]
) -> Iterator[tuple[int, SimOutcome]]:
    """Yield the outcomes of parts with their first seeds as they finish, except those in `done`."""
    traced_every = max(1, len(seeds) // _CHUNK // _MOST_TRACED)
    parts = (
        (seeds[at : at + _CHUNK], number % traced_every == 0)
        for number, at in enumerate(range(0, len(seeds), _CHUNK))
        if seeds[at] not in done
    )
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_silence
    ) as pool:
        running = {
            pool.submit(run_chunk, *part, kind): part[0][0] for part in islice(parts, 2 * workers)
        }
        try:
            while running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    first = running.pop(future)
                    if (part := next(parts, None)) is not None:
                        running[pool.submit(run_chunk, *part, kind)] = part[0][0]
                    yield first, future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def run_chunk(seeds: Sequence[int], trace: bool, kind: str = AT_LEAST_ONCE) -> SimOutcome:
    """Run some schedules in turn. With `trace`, record the lines that the first one reaches."""
    outcome = SimOutcome(kind, traced=int(trace))
    run, modules = GUARANTEES[kind].run, GUARANTEES[kind].modules
    gc.collect()
    gc.disable()  # saves a tenth of the time, and a hundred schedules leave little garbage
    for seed in seeds:
        outcome.schedules += 1
        try:
            if trace and seed == seeds[0]:
                report, lines = traced(partial(run, seed, discard_narration), modules)
                outcome.reached.update(lines)
            else:
                report = run(seed, discard_narration)
        except ViolationError as error:
            outcome.violations.append(str(error))
            continue
        except Exception as error:  # noqa: BLE001 - any unexpected error is a finding with a seed
            outcome.violations.append(f"seed {seed}: {type(error).__name__}: {error}")
            continue
        outcome.messages += report.messages
        outcome.replays += report.replays
        outcome.executions += report.executions
        outcome.steps += report.steps
        outcome.faults += report.faults
        outcome.seen += report.seen
    gc.enable()
    return outcome


def _silence() -> None:
    import logging

    logging.disable(logging.CRITICAL)
