"""The real events as spouts and bolts report them, independent of roots, edges, acks and ledgers.

Every emit has its own number, which is in the tuple's values. A bolt that acks a tuple reports
which emits it anchored to it. So it is known of any spout tuple if it was processed completely.
Then every copy of it has an acked execution, and everything anchored to that execution was
processed completely.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kstorm.topology import Placed

Message = int


@dataclass(eq=False)
class Truth:
    """Outlives every crash. Copies of a component share it."""

    messages: int
    tracked: bool = True
    """True if there are ackers. Without them a message is acked when it is emitted."""
    finished: set[Message] = field(default_factory=set)
    """Messages that need not be emitted again: most were acked, some are dead letters."""
    acked: set[Message] = field(default_factory=set)
    """Messages whose ack a spout has received."""
    attempts: defaultdict[Message, set[Any]] = field(default_factory=lambda: defaultdict(set))
    """The spouts' emits of each message: more than one if it was replayed."""
    executions: int = 0
    counted: set[tuple[str, Message]] = field(default_factory=set)
    """Stateful bolts and the messages they have counted, even if the state was lost."""
    violations: list[str] = field(default_factory=list)
    ends: int = 0
    """Number of exceptions that end the component's process."""
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
        """Number of repeated emits of messages."""
        return sum(len(attempts) - 1 for attempts in self.attempts.values())

    def new_emit(self) -> int:
        self._emits += 1
        return self._emits

    def sent(self, emit: int, targets: Sequence[int]) -> None:
        """Record the tasks that an emit went to."""
        self._targets[emit] = targets

    def sent_batch(self, emits: list[int], placed: Placed) -> None:
        """Record the tasks that the emits of a batch went to."""
        targets: dict[int, list[int]] = {emit: [] for emit in emits}
        for task, rows in placed:
            for emit in emits[rows] if isinstance(rows, slice) else [emits[row] for row in rows]:
                targets[emit].append(task)
        self._targets |= targets

    def executed(self, emit: int, task: int, anchored: Iterable[int]) -> None:
        """Record that a task acked a tuple, having anchored these emits to it."""
        self.executions += 1
        if emit not in self._targets:
            self.violations.append(
                f"the emit {emit} was refused, and task {task} has a tuple of it"
            )
        self._runs[emit, task].append(list(anchored))

    def executed_again(self) -> list[int]:
        """Return the emits of which a task executed and acked a copy more than once."""
        return sorted({emit for (emit, _), runs in self._runs.items() if len(runs) > 1})

    def done(self, emit: int) -> bool:
        """Return True if a complete run of an emit and all its descendants was executed."""
        if emit not in self._done and all(
            any(all(map(self.done, run)) for run in self._runs[emit, task])
            for task in self._targets[emit]
        ):
            self._done.add(emit)
        return emit in self._done

    def forget(self, component: str) -> None:
        """Expect no counts from a component whose state is lost with its changelog."""
        self.counted = {(name, message) for name, message in self.counted if name != component}

    def happens(self, *what: Any) -> int:
        """Count an event and return the count, for faults that occur once or a few times."""
        self._happened[what] += 1
        return self._happened[what]

    def unfinished(self, task: int, tasks: int) -> deque[Message]:
        """Return a spout task's unfinished messages."""
        return deque(
            message for message in range(task, self.messages, tasks) if message not in self.finished
        )
