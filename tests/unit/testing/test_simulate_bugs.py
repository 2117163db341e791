"""`simulate` finds typical user bugs, and reports none in correct topologies."""

import sys
from collections.abc import Sequence

import pytest

from kstorm.testing import SimulationError, simulate
from kstorm.testing.shrinking import shrink
from tests.unit.testing.buggy import BUGS, ORDERS, Bug

SEEDS = range(3, 9)
INPUTS = {"orders": ORDERS}


def finds(bug: Bug, seed: int) -> bool:
    try:
        simulate(bug.wrong, INPUTS, bug.judge, [seed])
    except SimulationError:
        return True
    return False


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_is_found_and_its_fix_passes(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many seeds find it with the default arguments."""
    monkeypatch.setattr(
        sys.modules["kstorm.testing.simulate"], "shrink", lambda *_: []
    )  # shrinking takes most of the time
    assert sum(finds(bug, seed) for seed in SEEDS) >= bug.least * len(SEEDS)
    assert simulate(bug.right, INPUTS, bug.judge, SEEDS).schedules == len(SEEDS)


def test_message_names_the_required_faults() -> None:
    """These faults alone reproduce the failure."""
    bug = BUGS[0]
    with pytest.raises(
        SimulationError,
        match=r"are enough:\n(.*\n)*.*(kill of a bolt, 'join' process|scale, of 'join' to)",
    ) as found:
        simulate(bug.wrong, INPUTS, bug.judge)
    message = str(found.value)
    only = [int(number) for number in message.split("only=[")[1].split("]")[0].split(", ")]
    assert len(only) <= 12
    with pytest.raises(SimulationError) as again:
        simulate(bug.wrong, INPUTS, bug.judge, [found.value.seed], only=only)
    complaints = [str(error.value).splitlines()[0].split(": [")[0] for error in (found, again)]
    assert (
        complaints[0] == complaints[1]
    )  # the lost tuples may differ, because there are fewer faults


def test_loss_without_any_fault_is_reported() -> None:
    """The message states that no fault is required."""

    def nothing_is_good(cluster: object) -> None:
        raise AssertionError("no")

    with pytest.raises(SimulationError, match="seed 3: no\nThis happens without any fault"):
        simulate(BUGS[0].right, INPUTS, nothing_is_good, [3])


@pytest.mark.parametrize("needed", [[], [7], [0, 19], [3, 4, 5]])
def test_the_fewest_of_some_causes(needed: list[int]) -> None:
    def is_enough(some: Sequence[int]) -> bool:
        return set(needed) <= set(some)

    assert shrink(range(20), is_enough) == needed
    assert shrink(range(20), is_enough, most_tries=0) == list(range(20))
