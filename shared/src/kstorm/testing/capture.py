"""A bolt for the end of a tested topology that keeps its input (Storm's `TupleCaptureBolt`)."""

from collections.abc import Callable
from functools import partial
from typing import Any

from kstorm.fitting import Text, checked
from kstorm.testing.external_topics import COMMIT
from kstorm.topology import (
    DEFAULT_STREAM,
    BasicBolt,
    BasicOutputCollector,
    Config,
    TopologyContext,
    Tuple,
)


class TupleCaptureBolt(BasicBolt):
    """Acks every tuple and keeps it. Use it in place of a bolt that writes to a server.

    Like a database, the kept tuples live outside the cluster. The bolt's tasks share them, and they
    survive a crash. A tuple that is executed again is kept again. In an exactly-once topology a
    tuple is kept when the epoch that contains its ack is committed, so once.
    """

    def __init__(self) -> None:
        self._captured = _Captured()

    @property
    def tuples(self) -> list[Tuple]:
        """All tuples, in execution order."""
        return list(self._captured)

    @checked()
    def values(
        self, component: Text | None = None, stream: Text = DEFAULT_STREAM
    ) -> list[list[Any]]:
        """Return the values of the tuples of a stream, optionally only of one component."""
        return [
            list(tuple)
            for tuple in self._captured
            if tuple.source_stream == stream and component in (None, tuple.source_component)
        ]

    def clear(self) -> None:
        """Drop all captured tuples."""
        self._captured.clear()

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """Look up the commit hook, which exists only with exactly-once processing."""
        super().prepare(config, context)
        lent = context.resources.get(COMMIT)
        self._at_commit: Callable[[Callable[[], object]], None] | None = lent and lent()

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Keep the tuple, unless it is a tick."""
        if tuple.is_tick:
            return
        if self._at_commit is None:
            self._captured.append(tuple)
        else:
            self._at_commit(partial(self._captured.append, tuple))


class _Captured(list[Tuple]):
    """Shared by the copies of a bolt, before and after a crash."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Captured":
        return self
