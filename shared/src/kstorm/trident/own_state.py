"""States of a user's own class (Storm's `State` and `StateFactory`)."""

from collections.abc import Sequence
from typing import Any

from kstorm.errors import EmitError
from kstorm.topology import Config, Fields, KeyValueState, TopologyContext
from kstorm.trident.batches import EMPTY, Batch, Picked, Row
from kstorm.trident.epochs import Epochs
from kstorm.trident.operations import Operation
from kstorm.trident.state import QueryFunction, StateUpdater
from kstorm.trident.steps import Step, asked
from kstorm.trident.tuple import TridentTuple


class State:
    """What a task changes or asks outside. Its methods may block; none is called while another is."""

    def begin_commit(self, txid: int) -> None:
        """The changes of this epoch follow. A number that was there before comes again if its epoch was not committed to Kafka,
        perhaps with other tuples: what it has changed must then not count twice."""

    def commit(self, txid: int) -> None:
        """They are complete. Kafka's commit comes next."""

    def close(self) -> None:
        """The task leaves its process in an orderly way."""


class StateFactory:
    """Makes a task's state (Storm's `makeState`)."""

    def make_state(self, config: Config, context: TopologyContext) -> State:
        """In each life of a task, before anything else. `context.task_index` of `context.total_tasks` is whose part it is.

        A process that was paused may still write when another has its task: have each life take a number in the database here, a
        higher one each time, and refuse in `commit` what is not of the highest, as `BackingMap.begin_life` does.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define make_state")


class OwnState:
    """A task's state, the tuples of an epoch, and what is done with them at its end: used as an `ExternalMap` is."""

    def __init__(self, factory: StateFactory, updater: StateUpdater) -> None:
        self._factory, self._updater = factory, updater
        self._tuples: list[TridentTuple] = []
        self._given: list[TridentTuple] = []
        self._made: State | None = None
        self._epochs = Epochs()

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """What the state is made of."""
        self._config, self._context = config, context

    def begin(self, state: KeyValueState) -> None:
        """See `ExternalMap.begin`."""
        self._epochs.begin(state)

    def open(self) -> None:
        """Makes the state. Blocks."""
        self._made = self._factory.make_state(self._config, self._context)

    def close(self) -> None:
        """Ends it. Blocks."""
        if self._made is not None:
            self._made.close()

    def load(self, keys: Sequence[Row]) -> None:
        """See `ExternalMap.load`: there is nothing to load."""

    def connect_again(self) -> None:
        """See `ExternalMap.connect_again`: the state has its own connection."""

    def take(self, tuples: list[TridentTuple]) -> None:
        """Tuples of an execution."""
        self._given = tuples

    def keep(self) -> None:
        """It has ended well."""
        self._tuples += self._given
        self._given = []

    @property
    def has_changed(self) -> bool:
        """Whether the epoch has tuples."""
        return bool(self._tuples)

    def before_commit(self) -> Any:
        """See `ExternalMap.before_commit`."""
        return self._tuples

    def end_epoch(self) -> None:
        """See `ExternalMap.end_epoch`."""
        self._tuples = []
        self._epochs.end()

    def after_commit(self) -> Any:
        """Nothing is left to be done."""
        return []

    def write(self, tuples: list[TridentTuple]) -> None:
        """Has the updater change the state. Blocks."""
        if tuples:
            assert self._made is not None
            self._made.begin_commit(self._epochs.current)
            self._updater.update_state(self._made, tuples, _EmitsNothing())
            self._made.commit(self._epochs.current)


class _EmitsNothing:
    """The collector of updaters whose epoch is over."""

    def emit(self, values: Any) -> None:
        """Raises `EmitError`."""
        raise EmitError(
            "an updater of a state of one's own class emits nothing: it works when its epoch is over"
        )


class OwnUpdate:
    """Of `partition_persist` into a state of the user's own class."""

    def __init__(self, factory: StateFactory, updater: StateUpdater, picked: Picked) -> None:
        self.operation: StateUpdater = updater
        self.output = Fields()
        self.map_factory = factory
        self._picked = picked
        self.map = OwnState(factory, updater)

    def begin(self, state: KeyValueState, task: str) -> None:
        """See `Update.begin`."""
        self.map.begin(state)

    def reader(self) -> Any:
        """Nobody asks it."""

    def keys(self, batch: Batch) -> Sequence[Row]:
        """The updater knows them."""
        return []

    def run(self, batch: Batch) -> Batch:
        """Its work is done at the end of the epoch."""
        self.map.take(list(self._picked.tuples(batch)))
        return EMPTY


class AskStep(Step):
    """`state_query` of a static state: each task has one, and asks it where its tuples are."""

    def __init__(
        self, factory: StateFactory, query: QueryFunction, picked: Picked, width: int
    ) -> None:
        self.operation: Operation = query
        self._factory, self._query, self._picked, self._width = factory, query, picked, width
        self._made: State | None = None

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """Makes the state."""
        self._made = self._factory.make_state(config, context)
        super().prepare(config, context)

    def cleanup(self) -> None:
        """Ends it."""
        super().cleanup()
        if self._made is not None:
            self._made.close()

    def run(self, batch: Batch) -> Batch:
        """The rows, each with what its answer adds."""
        return asked(self._query, self._made, self._picked, self._width, batch)
