"""The number of unfinished tuples of a task, while bolts raise errors and the task moves."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kstorm.core.exactly_once.unfinished import read_pair
from kstorm.topology import TupleBatch
from tests.unit.core.exact_harness import ExactHarness
from tests.unit.core.test_exact_task import Pairs


class Batches(Pairs):
    """Also holds batches, and ends three together. An error leaves them in its memory."""

    def __init__(self, raises_at: set[int], random: Random) -> None:
        super().__init__(raises_at)
        self.random = random
        self.batches: list[TupleBatch] = []

    def execute_batch(self, batch: TupleBatch) -> None:
        self.step()
        if len(batch) > 1 and self.random.random() < 0.5:
            return NotImplemented  # type: ignore[no-any-return]
        self.batches.append(batch)
        if len(self.batches) > 2:
            for each in self.batches:
                end = self.collector.fail_batch if self.random.random() < 0.2 else None
                (end or self.collector.ack_batch)(each)
                self.step()
            self.batches = []
        return None


class Moving:
    """A task that moves from process to process."""

    def __init__(self, random: Random, batches: bool) -> None:
        self.random, self.batches = random, batches
        self.frames: dict[int, list[str]] = {}
        self.stored: dict[bytes, bytes] = {}
        self.harness = self.made()

    def made(self) -> ExactHarness:
        raises_at = {step for step in range(1, 60) if self.random.random() < 0.15}
        bolt = Batches(raises_at, self.random) if self.batches else Pairs(raises_at)
        bolt.harness = ExactHarness(bolt, topology_bolt_retry_limit=100)
        return bolt.harness  # type: ignore[no-any-return]

    def give(self) -> None:
        offset = len(self.frames) + 1
        self.frames[offset] = ["abc"[self.random.randrange(3)] for _ in range(offset % 3 + 1)]
        self.harness.give(offset, *self.frames[offset])

    def move(self) -> None:
        for key, value in self.harness.task.rows.changes():
            if value is None:
                del self.stored[key]
            else:
                self.stored[key] = value
        self.harness = after = self.made()
        left = [read_pair(*pair) for pair in sorted(self.stored.items())]
        frames = [(at, after.frame(at, *self.frames[at]), rows) for at, rows in left]
        for _ in after.task.resume(frames, self.stored):
            pass

    def held(self) -> int:
        """The number of tuples that a commit would store as held."""
        rows = self.harness.task.rows
        rows._gather()
        return len(list(rows._held()))


@given(st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=60, deadline=None)
def test_unfinished_tuples_are_those_that_are_held(random: Random, batches: bool) -> None:
    """So there are never fewer than none. `kstorm status` shows them as pending."""
    moving = Moving(random, batches)
    for _ in range(random.randint(3, 25)):
        dice = random.random()
        if dice < 0.55:
            moving.give()
        elif dice < 0.75:
            moving.harness.retry(100.0)
        else:
            moving.move()
        assert moving.harness.task.unfinished == moving.held()


class Keeps(Pairs):
    """Raises after it has kept a batch, and acks the batch later."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: TupleBatch | None = None

    def execute_batch(self, batch: TupleBatch) -> None:
        if self.kept is not None:
            self.collector.ack_batch(self.kept)
            return self.collector.ack_batch(batch)
        self.kept = batch
        raise ValueError("after it was kept")


def test_a_batch_that_is_executed_one_by_one_ends_one_by_one() -> None:
    """A late ack of it would end its tuples twice, and their trees never."""
    bolt = Keeps()
    made = bolt.harness = ExactHarness(bolt)
    made.give(1, "a", "b")
    assert (made.task.collector.acked, made.task.unfinished) == (2, 0)
    (pairs,) = (pairs for _, pairs in made.sent_with_trees())
    trees = made.acks()
    made.give(2, "c")
    assert (made.task.collector.acked, made.task.unfinished) == (3, 0)
    assert made.acks() == {201: 201}
    assert {root: trees[root] ^ edge for root, edge in pairs.items()} == {101: 101, 102: 102}
