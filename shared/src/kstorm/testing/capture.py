"""A bolt at the end of a topology, for tests: it keeps what it was given (Storm's `TupleCaptureBolt`)."""

from collections.abc import Callable
from functools import partial
from typing import Any

from kstorm.testing.outside import COMMIT
from kstorm.topology import (
    DEFAULT_STREAM,
    BasicBolt,
    BasicOutputCollector,
    Config,
    TopologyContext,
    Tuple,
)


class TupleCaptureBolt(BasicBolt):
    """Acks every tuple and keeps it, in the place of a bolt that writes to a server.

    What it has lies outside of the cluster, as in a database: its tasks share it, and a crash of the bolt does not lose
    it. A tuple that is executed again is kept again; but in a topology that is processed exactly once a tuple is kept when
    the epoch is committed that has its ack, so once.
    """

    def __init__(self) -> None:
        self._captured = _Captured()

    @property
    def tuples(self) -> list[Tuple]:
        """All tuples, in the order in which they were executed."""
        return list(self._captured)

    def values(self, component: str | None = None, stream: str = DEFAULT_STREAM) -> list[list[Any]]:
        """The values of the tuples of a stream; of one component's, if `component` is given."""
        return [
            list(tuple)
            for tuple in self._captured
            if tuple.source_stream == stream and component in (None, tuple.source_component)
        ]

    def clear(self) -> None:
        """Forgets what it has."""
        self._captured.clear()

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """Asks whether there are epochs."""
        super().prepare(config, context)
        lent = context.resources.get(COMMIT)
        self._at_commit: Callable[[Callable[[], object]], None] | None = lent and lent()

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Keeps the tuple, unless it is a tick."""
        if tuple.is_tick:
            return
        if self._at_commit is None:
            self._captured.append(tuple)
        else:
            self._at_commit(partial(self._captured.append, tuple))


class _Captured(list[Tuple]):
    """Shared by the copies of a bolt, and by its lives before and after a crash."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Captured":
        return self
