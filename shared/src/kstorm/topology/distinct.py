"""A bolt that drops what has come before: for sources that deliver a message more than once."""

from collections.abc import Sequence
from typing import Any, Final

from kstorm.topology.collectors import BasicOutputCollector
from kstorm.topology.components import StatefulBasicBolt
from kstorm.topology.declarer import OutputFieldsDeclarer
from kstorm.topology.tuple import Tuple

_NEXT: Final = "next"


class DistinctBolt(StatefulBasicBolt):
    """Passes a tuple on, unless its id is among the last ones that this task has passed on.

    Group by the id field, so that all tuples of an id come to one task. In a topology that is processed exactly once nothing is
    passed on twice within the window; at least once, a replay may still be.
    """

    def __init__(self, fields: Sequence[str] | str, id_field: str, window: int = 100_000) -> None:
        """`fields` are passed on, the others not. `window`: how many ids each task remembers, two entries of its state each; choose
        more than come between a message and its repetition. Raises `ValueError` if it is below 1."""
        if window < 1:
            raise ValueError(f"window is {window}: a task must remember one id at least")
        self._fields = [fields] if isinstance(fields, str) else list(fields)
        self._id_field, self._window = id_field, window

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares the fields that are passed on."""
        declarer.declare(self._fields)

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Remembers the id and passes the tuple on, or acks it and no more. Raises `KeyError` on a tuple without these fields."""
        key = _key(tuple[self._id_field])
        if self.state.get(key) is not None:
            return
        number = self.state.get(_NEXT, 0)
        self.state.put(_NEXT, number + 1)
        self.state.put(key, number)
        self.state.put(f"#{number}", key)
        forgotten = self.state.delete(f"#{number - self._window}")
        if forgotten is not None:
            self.state.discard(forgotten)
        collector.emit([tuple[field] for field in self._fields])


def _key(id: Any) -> str:
    """1 and "1" are two ids."""
    return f"={id!r}"
