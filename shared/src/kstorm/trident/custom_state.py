"""States of a user's own class (Storm's `State` and `StateFactory`)."""

from collections.abc import Sequence
from typing import Any

from kstorm.core.watched_buffers import BufferWatch
from kstorm.errors import EmitError
from kstorm.topology import Config, Fields, KeyValueState, TopologyContext
from kstorm.trident.batches import EMPTY, Batch, FieldSelection, Row
from kstorm.trident.epochs import EpochCounter
from kstorm.trident.operations import Operation
from kstorm.trident.state import QueryFunction, StateUpdater
from kstorm.trident.steps import Step, add_answers
from kstorm.trident.tuple import TridentTuple


class State:
    """External data that a task changes or queries. Methods may block. They are never called
    concurrently."""

    def begin_commit(self, txid: int) -> None:
        """Start the changes of an epoch.

        If an epoch was not committed to Kafka, it is repeated with the same number, possibly with
        other tuples. Its earlier changes must not be counted twice then.
        """

    def commit(self, txid: int) -> None:
        """Complete the epoch's changes. Kafka's commit is next."""

    def close(self) -> None:
        """Clean up. Called when the task leaves its process in an orderly way."""


class StateFactory:
    """Creates a task's state (Storm's `makeState`)."""

    def make_state(self, config: Config, context: TopologyContext) -> State:
        """Create the state. Called each time a process starts the task, before everything else.

        `context.task_index` of `context.total_tasks` identifies the task's part of the state. A
        paused process may still write after another process has taken over its task. To prevent
        this, take a fencing number from the database here, higher each time. Reject writes with a
        lower number in `commit`, as `BackingMap.begin_life` does.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define make_state")


class CustomState:
    """A task's state, and the tuples of the current epoch, which are processed when it ends.

    It is used like an `ExternalMap`. It loads nothing in advance, and the user's state manages its
    own connection.
    """

    def __init__(self, factory: StateFactory, updater: StateUpdater) -> None:
        self._factory, self._updater = factory, updater
        self._tuples: list[TridentTuple] = []
        self._given: list[TridentTuple] = []
        self._made: State | None = None
        self._epochs = EpochCounter()

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self._config, self._context = config, context

    def begin(self, state: KeyValueState) -> None:
        self._epochs.begin(state)

    def open(self) -> None:
        self._made = self._factory.make_state(self._config, self._context)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def load(self, keys: Sequence[Row]) -> None: ...

    def connect_again(self) -> None: ...

    def take(self, tuples: list[TridentTuple]) -> None:
        """Receive the tuples of the current execution."""
        self._given = tuples

    def keep(self) -> None:
        """Make the tuples of this execution part of the epoch."""
        self._tuples += self._given
        self._given = []

    @property
    def has_changed(self) -> bool:
        """True if the epoch has tuples."""
        return bool(self._tuples)

    def before_commit(self) -> Any:
        return self._tuples

    def end_epoch(self) -> None:
        self._tuples = []
        self._epochs.end()

    def after_commit(self) -> Any:
        return []

    def write(self, tuples: list[TridentTuple]) -> None:
        """Update the state with the tuples of an epoch. Blocks."""
        if tuples:
            assert self._made is not None
            self._made.begin_commit(self._epochs.current)
            self._updater.update_state(self._made, tuples, _EmitsNothing())
            self._made.commit(self._epochs.current)


class _EmitsNothing:
    """The collector of updaters, which run after the end of their epoch and cannot emit."""

    def emit(self, values: Any) -> None:
        raise EmitError(
            "the updater of a state of your own class cannot emit: it runs when its epoch has ended"
        )


class CustomStateUpdate:
    """The update of `partition_persist` with a state of the user's own class."""

    watch: BufferWatch | None = None

    def __init__(
        self, factory: StateFactory, updater: StateUpdater, picked: FieldSelection
    ) -> None:
        self.operation: StateUpdater = updater
        self.output = Fields()
        self.map_factory = factory
        self._picked = picked
        self.map = CustomState(factory, updater)

    def begin(self, state: KeyValueState, task: str) -> None:
        self.map.begin(state)

    def reader(self) -> Any:
        """Return None: such a state cannot be queried."""

    def keys(self, batch: Batch) -> Sequence[Row]:
        # The updater reads the state itself.
        return []

    def run(self, batch: Batch) -> Batch:
        # The updater runs at the end of the epoch.
        self.map.take(list(self._picked.tuples(batch)))
        return EMPTY


class StaticQueryStep(Step):
    """Queries a static state with `state_query`. Each task has its own state and queries it for its
    own tuples."""

    def __init__(
        self, factory: StateFactory, query: QueryFunction, picked: FieldSelection, width: int
    ) -> None:
        self.operation: Operation = query
        self._factory, self._query, self._picked, self._width = factory, query, picked, width
        self._made: State | None = None

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self._made = self._factory.make_state(config, context)
        super().prepare(config, context)

    def cleanup(self) -> None:
        super().cleanup()
        if self._made is not None:
            self._made.close()

    def run(self, batch: Batch) -> Batch:
        return add_answers(self._query, self._made, self._picked, self._width, batch, self.watch)
