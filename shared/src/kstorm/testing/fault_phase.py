"""The second phase of every simulated schedule: calm until all is done."""

from collections.abc import Callable

from kstorm.testing.adversary import Adversary
from kstorm.testing.cluster import LocalCluster

MOST_ROUNDS = 60
"""Half message timeouts after the last fault within which every message must be acked."""


def work_in_calm(
    cluster: LocalCluster,
    adversary: Adversary,
    is_done: Callable[[], bool],
    let_pass: Callable[[], None],
) -> bool:
    """Stop faults and work until `is_done`, for at most `MOST_ROUNDS`, with `let_pass` after each
    round.

    Returns True if all was done. The last zombies wake up when no other process has anything to do.
    """
    adversary.end()
    for _ in range(MOST_ROUNDS):
        adversary.lay_the_dead_to_rest()
        cluster.run_until_idle()
        if is_done():
            return True
        let_pass()
    return False
