"""`kstorm trace` and `kstorm why` are right in any schedule. A longer run of the unit tests."""

import pytest

from tests.sim.trees import Rebuilt, explore_exact_trees, explore_trees


@pytest.mark.long
# Schedules are aborted during executions.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.timeout(300)
def test_acked_trees_are_proven_and_open_trees_name_unacked_tuples() -> None:
    """This covers at least once and exactly once. A failing schedule prints its seed."""
    rebuilt, exact = Rebuilt(), Rebuilt()
    for seed in range(1000, 1400):
        explore_trees(seed, rebuilt)
    for seed in range(1000, 1100):
        explore_exact_trees(seed, exact)
    assert rebuilt.acked > 1200
    assert exact.acked > 250
