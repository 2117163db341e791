"""A ledger among faults, next to a model of which trees are really open.

The world contains one acker task, its input log, and the processes that write to it. It also has
the stored buckets, and the committed offsets of the input. The model knows every tuple of every
tree and every execution of it. A tree is done when each of its first tuples has an acked execution,
and all tuples anchored to that execution have one too. An ack counts once a ledger has applied it.
Two errors are raised as soon as they are seen:

- `FalseCompletionError`: the ledger reports a tree as done that is not. This is data loss.
- `StuckError`: a tree without any duplicate, re-execution or timeout was never completed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from kstorm.core.completion_box import CompletionBox
from kstorm.core.ledger import Ledger
from kstorm.core.wire import VERSION, AckFrame, pack_ids
from kstorm.topology import OutputFieldsDeclarer, Spout, TopologyBuilder

_SPOUT = 1
_BUCKETS_IN_USE = 3
_LIFE = 3  # one more than the rotations that a row certainly survives


class FalseCompletionError(AssertionError):
    """The ledger completed a tree that is open."""


class StuckError(AssertionError):
    """The ledger did not complete a tree that is done, or did not forget an old one."""


@dataclass(eq=False)
class TupleExecution:
    """One execution of a tuple that ended with an ack."""

    children: list["TupleCopy"]
    applied: bool = False
    """True once a ledger has seen the ack."""


@dataclass(eq=False)
class TupleCopy:
    """One tuple of a tree."""

    tree: "ModelTree"
    edge: int
    runs: list[TupleExecution] = field(default_factory=list)
    failed: bool = False

    @property
    def done(self) -> bool:
        """True if a ledger knows a complete run of the tuple and of all its descendants."""
        return any(run.applied and all(child.done for child in run.children) for run in self.runs)


@dataclass(eq=False)
class ModelTree:
    """One spout tuple with all its descendants."""

    root: int
    born: int
    """Rotations before it began."""
    copies: list[TupleCopy] = field(default_factory=list)
    first: list[TupleCopy] = field(default_factory=list)
    disturbed: bool = False
    """True if something happened that may delay it until its timeout."""
    failed: bool = False
    told: bool = False
    """True once its end was delivered to the spout."""


@dataclass
class UnsentBatch:
    """The unsent output of one process: one record of the ackers' topic."""

    inits: dict[int, int] = field(default_factory=dict)
    acks: dict[int, int] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    reset: set[int] = field(default_factory=set)
    runs: list[TupleExecution] = field(default_factory=list)

    def frame(self) -> AckFrame:
        """Return the frame for the topic. Inits name spout task 1."""
        inits, init_vals = pack_ids(list(self.inits)), pack_ids(list(self.inits.values()))
        acks, vals = pack_ids(list(self.acks)), pack_ids(list(self.acks.values()))
        failed, reset = pack_ids(list(self.failed)), pack_ids(list(self.reset))
        return AckFrame(VERSION, _SPOUT, inits, init_vals, acks, vals, failed, reset)


class LedgerWorld:
    """Its methods are the possible events and check the ledger, which `make` builds."""

    def __init__(
        self, make: Callable[[CompletionBox], Ledger] = Ledger, processes: int = 3, seed: int = 0
    ) -> None:
        builder = TopologyBuilder("world")
        builder.set_spout("spout", _Source())
        self._topology = builder.build()
        self._make = make
        self._random = Random(seed)
        self._batches = [UnsentBatch() for _ in range(processes)]
        self.log: list[tuple[AckFrame, list[TupleExecution]]] = []
        self.trees: dict[int, ModelTree] = {}
        self.boundaries = [0]
        """Committed offsets, each after a full checkpoint."""
        self.rotations = 0
        self._stored: dict[bytes, bytes] = {}
        self._start(0)

    @property
    def open_copies(self) -> list[TupleCopy]:
        """Tuples that no execution has acked or failed yet."""
        return [copy for copy in self._copies() if not (copy.runs or copy.failed)]

    @property
    def executed_copies(self) -> list[TupleCopy]:
        """Tuples that were executed and acked."""
        return [copy for copy in self._copies() if copy.runs]

    # Spouts and bolts.

    def begin(self, process: int, copies: int) -> None:
        """A spout emits a tuple to some bolt tasks."""
        root = self._random.getrandbits(59) * 32 + self._random.randrange(_BUCKETS_IN_USE)
        tree = self.trees[root] = ModelTree(root, self.rotations)
        tree.first = [self._new_copy(tree) for _ in range(copies)]
        self._batches[process].inits[root] = _xor(copy.edge for copy in tree.first)

    def execute(self, process: int, copy: TupleCopy, children: int) -> None:
        """A bolt executes a tuple and acks it. A second execution delays its tree."""
        copy.tree.disturbed |= bool(copy.runs)
        run = TupleExecution([self._new_copy(copy.tree) for _ in range(children)])
        copy.runs.append(run)
        self._ack(process, copy, run, _xor(child.edge for child in run.children))

    def join(self, process: int, left: TupleCopy, right: TupleCopy) -> None:
        """A bolt anchors one tuple to two, with an edge for each, or one if they share a tree."""
        edges = [self._random.getrandbits(64), self._random.getrandbits(64)]
        folded = TupleCopy(left.tree, edges[0] ^ edges[1]) if left.tree is right.tree else None
        for copy, edge in zip((left, right), edges, strict=True):
            copy.tree.disturbed |= bool(copy.runs)
            run = TupleExecution([folded or self._new_copy(copy.tree, edge)])
            copy.runs.append(run)
            self._ack(process, copy, run, edge)
        if folded is not None:
            left.tree.copies.append(folded)

    def fail(self, process: int, copy: TupleCopy) -> None:
        """A bolt fails a tuple instead of acking it."""
        copy.failed = copy.tree.failed = True
        self._batches[process].failed.add(copy.tree.root)

    def reset(self, process: int, tree: ModelTree) -> None:
        """A bolt requests more time."""
        self._batches[process].reset.add(tree.root)

    # The network.

    def deliver(self, process: int) -> None:
        """The output of a process becomes a record. Order is kept only within a process."""
        batch, self._batches[process] = self._batches[process], UnsentBatch()
        self.log.append((batch.frame(), batch.runs))

    def duplicate(self, offset: int) -> None:
        """A record is delivered once more."""
        if offset >= len(self.log):
            return
        frame, runs = self.log[offset]
        for copy in self.executed_copies:
            copy.tree.disturbed |= any(run in runs for run in copy.runs)
        self.log.append((frame, runs))

    # The acker.

    def apply(self) -> bool:
        """Apply the next record. False at the end of the log."""
        if self._position == len(self.log):
            return False
        frame, runs = self.log[self._position]
        for run in runs:
            run.applied = True
        self._ledger.apply(frame, self._position)
        self._position += 1
        for task, root in _all_news(self._box.acked):
            if task != _SPOUT or not all(copy.done for copy in self.trees[root].first):
                raise FalseCompletionError(f"tree {root:x} was completed while it is open")
        for task, root in _all_news(self._box.failed):
            if task != _SPOUT or not self.trees[root].failed:
                raise FalseCompletionError(f"tree {root:x} was failed without a cause")
        return True

    def tell(self) -> None:
        """Completions and failures are delivered to the spout."""
        for _, root in self._take_news():
            self.trees[root].told = True

    def lose_news(self) -> None:
        """Completions and failures are lost in transit. The spout will time out their trees."""
        for _, root in self._take_news():
            self.trees[root].disturbed = True

    def checkpoint(self, written: int | None = None, commit: bool = True) -> None:
        """Deliver completions, write buckets, commit the input.

        With `written` the acker dies after that many buckets.
        """
        self.tell()
        changed = list(self._ledger.checkpoint().items())
        self._random.shuffle(changed)
        self._stored.update(changed[:written])
        if written is not None:
            self.crash()
        elif commit and self._position > self.boundaries[-1]:
            self.boundaries.append(self._position)

    def crash(self, boundary: int = -1) -> None:
        """The acker dies with its undelivered completions. It resumes from its stored state.

        `boundary` is the index of the committed offset to resume from.
        """
        self._start(self.boundaries[boundary])

    def rotate(self) -> None:
        """A message timeout passes."""
        self.rotations += 1
        self._ledger.rotate()

    # The end.

    def settle(self) -> None:
        """Stop the faults and finish all work.

        Undisturbed trees must complete, and everything must be forgotten in time.
        """
        for copy in self.open_copies:
            self.execute(0, copy, 0)
        for process in range(len(self._batches)):
            self.deliver(process)
        while self.apply():
            pass
        self.tell()
        for tree in self.trees.values():
            if not (tree.told or tree.disturbed or self.rotations - tree.born >= _LIFE):
                raise StuckError(
                    f"tree {tree.root:x} is done or failed, and its spout was not notified"
                )
        for _ in range(_LIFE):
            self.rotate()
        self.checkpoint()
        if len(self._ledger):
            raise StuckError(f"{len(self._ledger)} rows are left after {_LIFE} timeouts")
        self.crash()
        if len(self._ledger):
            raise StuckError(
                f"{len(self._ledger)} rows came back from the store after they were forgotten"
            )

    def _start(self, position: int) -> None:
        self._box = CompletionBox(self._topology)
        self._ledger = self._make(self._box)
        self._ledger.restore(self._stored.items())
        self._position = position

    def _take_news(self) -> list[tuple[int, int]]:
        news = _all_news(self._box.acked) + _all_news(self._box.failed)
        for kind in (self._box.acked, self._box.failed, self._box.reset):
            kind.clear()
        return news

    def _ack(self, process: int, copy: TupleCopy, run: TupleExecution, children: int) -> None:
        batch, root = self._batches[process], copy.tree.root
        batch.acks[root] = batch.acks.get(root, 0) ^ copy.edge ^ children
        batch.runs.append(run)

    def _new_copy(self, tree: ModelTree, edge: int | None = None) -> TupleCopy:
        copy = TupleCopy(tree, self._random.getrandbits(64) if edge is None else edge)
        tree.copies.append(copy)
        return copy

    def _copies(self) -> Iterator[TupleCopy]:
        for tree in self.trees.values():
            yield from tree.copies


class _Source(Spout):
    """Task 1 of the topology, which receives completions."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("x")


def _all_news(news: dict[int, list[int]]) -> list[tuple[int, int]]:
    return [(task, root) for task, roots in news.items() for root in roots]


def _xor(edges: Iterator[int]) -> int:
    val = 0
    for edge in edges:
        val ^= edge
    return val
