"""What every simulated schedule has: work among faults, then calm until all is done."""

from collections.abc import Callable

from kstorm.testing.adversary import Adversary
from kstorm.testing.cluster import LocalCluster

MOST_ROUNDS = 60
"""Half timeouts until which every message must be acked once faults have stopped."""


def work_among_faults(
    cluster: LocalCluster, adversary: Adversary, steps: int, look: Callable[[], None] = lambda: None
) -> None:
    """Takes so many steps, with perhaps a fault before each; `look` is called after each."""
    adversary.begin()
    for _ in range(steps):
        adversary.strike()
        if not cluster.step():
            adversary.pass_time()
        look()


def work_in_calm(
    cluster: LocalCluster,
    adversary: Adversary,
    is_done: Callable[[], bool],
    let_pass: Callable[[], None],
) -> bool:
    """Faults have stopped: works until all is done, or for `MOST_ROUNDS`, with `let_pass` after each round; whether all was
    done. The last zombies wake up when nobody else has anything to do."""
    adversary.end()
    for _ in range(MOST_ROUNDS):
        adversary.lay_the_dead_to_rest()
        cluster.run_until_idle()
        if is_done():
            return True
        let_pass()
    return False
