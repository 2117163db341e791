"""Many schedules on all processors, and one table of what they met."""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kstorm.local.sim.page import print_outcome, write_page
from kstorm.local.sim.reached import Line, traced
from kstorm.testing.simulation import ViolationError, run_schedule

_CHUNK: Final = 100
"""Schedules that a worker runs at a time; the first of them is traced."""
_MOST_VIOLATIONS: Final = 10


@dataclass
class Outcome:
    """What came of some schedules."""

    schedules: int = 0
    messages: int = 0
    replays: int = 0
    executions: int = 0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    traced: int = 0
    reached: Counter[Line] = field(default_factory=Counter)
    """In how many of the traced schedules each line was reached."""
    seconds: float = 0.0
    """On the clock."""

    def add(self, other: "Outcome") -> None:
        """Takes in what came of some more."""
        for name in ("schedules", "messages", "replays", "executions", "steps", "traced"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults += other.faults
        self.seen += other.seen
        self.reached += other.reached
        self.violations += other.violations


def run_many(seeds: Sequence[int], workers: int, page: Path | None, console: Console) -> int:
    """Runs the schedules of these seeds and prints what they met; 1 if one breaks the guarantee."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}")
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("schedules", total=len(seeds), rate="")

        def show(outcome: Outcome) -> None:
            progress.update(bar, completed=outcome.schedules, rate=f"{outcome.schedules / outcome.seconds:.0f}/s")

        outcome = sweep(seeds, workers, show)
    print_outcome(outcome, workers, console)
    if page is not None:
        write_page(outcome, seeds, workers, page)
    return 1 if outcome.violations else 0


def sweep(seeds: Sequence[int], workers: int, show: Callable[[Outcome], object] = lambda outcome: None) -> Outcome:
    """Runs the schedules of these seeds on so many processes, until ten have broken the guarantee; `show` sees each part
    added to the outcome."""
    outcome = Outcome()
    began = time.monotonic()
    for part in _parts(seeds, workers):
        outcome.add(part)
        outcome.seconds = time.monotonic() - began
        show(outcome)
        if len(outcome.violations) >= _MOST_VIOLATIONS:
            break
    return outcome


def _parts(seeds: Sequence[int], workers: int) -> Iterator[Outcome]:
    chunks = iter([seeds[at : at + _CHUNK] for at in range(0, len(seeds), _CHUNK)])
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_silence) as pool:
        running: set[Future[Outcome]] = {pool.submit(run_chunk, chunk) for chunk in islice(chunks, 2 * workers)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    chunk = next(chunks, None)
                    if chunk is not None:
                        running.add(pool.submit(run_chunk, chunk))
                    yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def run_chunk(seeds: Sequence[int]) -> Outcome:
    """Runs some schedules one after the other; the lines that the first of them reaches are noted."""
    outcome = Outcome(traced=1)
    gc.collect()
    gc.disable()  # a tenth of the time, and what a hundred schedules leave behind is little
    for seed in seeds:
        outcome.schedules += 1
        try:
            if seed == seeds[0]:
                report, lines = traced(lambda seed=seed: run_schedule(seed))  # type: ignore[misc]
                outcome.reached.update(lines)
            else:
                report = run_schedule(seed)
        except ViolationError as error:
            outcome.violations.append(str(error))
            continue
        except Exception as error:  # noqa: BLE001 - what nobody expected is a finding too, and has a seed to replay
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
