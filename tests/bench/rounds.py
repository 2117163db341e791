"""The order in which contestants run, and their comparison with the base.

A shared machine's speed varies by the minute. So the base runs before and after each contestant,
and ratios are to the mean of these two runs.
"""

from collections.abc import Sequence
from dataclasses import replace

from tests.bench.contest import BenchRun
from tests.bench.contestants import Contestant, base_of


def schedule(contestants: Sequence[Contestant], rounds: int) -> list[Contestant]:
    """Return all runs in order: base, one, base, another, base …

    Without the base, or with the base alone, it is just `rounds` of each.
    """
    name = base_of([contestant.name for contestant in contestants])
    base = [contestant for contestant in contestants if contestant.name == name]
    others = [contestant for contestant in contestants if contestant.name != name]
    if not base or not others:
        return list(contestants) * rounds
    return [*(each for other in others * rounds for each in (*base, other)), *base]


def with_ratios(runs: Sequence[BenchRun]) -> list[BenchRun]:
    """Return the runs with ratios for each that is between two runs of the base.

    Only figures that all three have get a ratio.
    """
    found, base = list(runs), base_of({run.contestant for run in runs})
    for place in range(1, len(runs) - 1):
        before, run, after = runs[place - 1 : place + 2]
        if run.contestant != base and before.contestant == after.contestant == base:
            found[place] = replace(run, ratios=_ratios(before, run, after))
    return found


def _ratios(before: BenchRun, run: BenchRun, after: BenchRun) -> dict[str, float]:
    ratios: dict[str, float] = {}
    for name, figure in run.figures.items():
        around = [base.figures.get(name) for base in (before, after)]
        known = [value for value in around if value is not None]
        if figure is not None and len(known) == len(around) and sum(known) > 0:
            ratios[name] = figure / (sum(known) / len(known))
    return ratios
