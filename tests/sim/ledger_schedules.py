"""Random schedules of a `LedgerWorld`, each drawn from a seed."""

from collections.abc import Callable
from random import Random

from kstorm.core.completion_box import CompletionBox
from kstorm.core.ledger import Ledger
from tests.sim.ledger_world import LedgerWorld, ModelTree, TupleCopy


def explore(
    seed: int, make: Callable[[CompletionBox], Ledger] = Ledger, steps: int = 120, often: int = 1
) -> LedgerWorld:
    """Run one random schedule of the world from a seed. Raises the errors that it finds.

    Crashes, checkpoints and timeouts occur `often` times as often as by default.
    """
    random = Random(seed)
    world = LedgerWorld(make, seed=seed)

    def process() -> int:
        return random.randrange(3)

    def on_copy(copies: list[TupleCopy], act: Callable[[TupleCopy], None]) -> None:
        if copies:
            act(random.choice(copies))

    def on_tree(act: Callable[[ModelTree], None]) -> None:
        if world.trees:
            act(random.choice(list(world.trees.values())))

    def join() -> None:
        if len(copies := world.open_copies) > 1:
            world.join(process(), *random.sample(copies, 2))

    actions: list[tuple[int, Callable[[], object]]] = [
        (8, lambda: world.begin(process(), random.randint(1, 3))),
        (
            20,
            lambda: on_copy(
                world.open_copies,
                lambda c: world.execute(process(), c, random.choice((0, 0, 1, 2))),
            ),
        ),
        (3, join),
        (25, lambda: world.deliver(process())),
        (40, world.apply),
        (
            2,
            lambda: on_copy(
                world.executed_copies, lambda c: world.execute(process(), c, random.randrange(3))
            ),
        ),
        (2, lambda: world.duplicate(random.randrange(len(world.log) + 1))),
        (1, lambda: on_copy(world.open_copies, lambda copy: world.fail(process(), copy))),
        (1, lambda: on_tree(lambda tree: world.reset(process(), tree))),
        (5, world.tell),
        (1, world.lose_news),
        (5 * often, lambda: world.checkpoint(commit=random.random() < 0.8)),
        (3, lambda: world.checkpoint(written=random.randrange(3))),
        (3 * often, lambda: world.crash(random.randrange(len(world.boundaries)))),
        (3 * often, world.rotate),
    ]
    weights, acts = zip(*actions, strict=True)
    for act in random.choices(acts, weights, k=steps):
        act()
    world.settle()
    return world
