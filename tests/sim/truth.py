"""What really happened, as spouts and bolts tell it: independent of roots, edges, acks and ledgers.

Every emit has a number of its own, which travels in the tuple's values. A bolt that acks a tuple tells which emits it
anchored to it. So it can be said of any spout tuple whether it was processed completely: some execution of every copy
of it was acked, and all that was anchored to that execution was processed completely.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kstorm.topology import Placed

Message = int


@dataclass(eq=False)
class Truth:
    """Outlives every crash; copies of a component share it."""

    messages: int
    tracked: bool = True
    """Whether there are ackers; without them a message is acked when it is emitted."""
    finished: set[Message] = field(default_factory=set)
    """Messages that need not be emitted again: most were acked, some are dead letters."""
    acked: set[Message] = field(default_factory=set)
    """Messages whose ack a spout was told."""
    attempts: defaultdict[Message, set[Any]] = field(default_factory=lambda: defaultdict(set))
    """What each message was emitted as, by spouts; more than once if it was replayed."""
    executions: int = 0
    counted: set[tuple[str, Message]] = field(default_factory=set)
    """Which stateful bolts have counted which messages, whether or not their state survived."""
    violations: list[str] = field(default_factory=list)
    ends: int = 0
    """How often a component raised where that ends its process."""
    _emits: int = 0
    _targets: dict[int, Sequence[int]] = field(default_factory=dict)
    _runs: defaultdict[tuple[int, int], list[list[int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _done: set[int] = field(default_factory=set)
    _happened: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Truth":
        return self

    @property
    def replays(self) -> int:
        """How often a message was emitted again."""
        return sum(len(attempts) - 1 for attempts in self.attempts.values())

    def new_emit(self) -> int:
        """A number for an emit."""
        self._emits += 1
        return self._emits

    def sent(self, emit: int, targets: Sequence[int]) -> None:
        """An emit went to these tasks."""
        self._targets[emit] = targets

    def sent_batch(self, emits: list[int], placed: Placed) -> None:
        """Emits of one batch went to these tasks."""
        targets: dict[int, list[int]] = {emit: [] for emit in emits}
        for task, rows in placed:
            for emit in emits[rows] if isinstance(rows, slice) else [emits[row] for row in rows]:
                targets[emit].append(task)
        self._targets |= targets

    def executed(self, emit: int, task: int, anchored: Iterable[int]) -> None:
        """A task acked a tuple, having anchored these emits to it."""
        self.executions += 1
        if emit not in self._targets:
            self.violations.append(
                f"the emit {emit} was refused, and task {task} has a tuple of it"
            )
        self._runs[emit, task].append(list(anchored))

    def executed_again(self) -> list[int]:
        """The emits of which a task executed and acked a copy more than once."""
        return sorted({emit for (emit, _), runs in self._runs.items() if len(runs) > 1})

    def done(self, emit: int) -> bool:
        """Whether a complete run of an emit and of all that hangs on it was executed."""
        if emit not in self._done and all(
            any(all(map(self.done, run)) for run in self._runs[emit, task])
            for task in self._targets[emit]
        ):
            self._done.add(emit)
        return emit in self._done

    def forget(self, component: str) -> None:
        """The state of a component is gone with its changelog: what it had counted is expected no more."""
        self.counted = {(name, message) for name, message in self.counted if name != component}

    def happens(self, *what: Any) -> int:
        """Something happens; how often it has by now: for faults that happen once, or a few times."""
        self._happened[what] += 1
        return self._happened[what]

    def unfinished(self, task: int, tasks: int) -> deque[Message]:
        """The messages that a spout task has yet to get through."""
        return deque(
            message for message in range(task, self.messages, tasks) if message not in self.finished
        )
