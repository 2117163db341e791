"""Joins of streams by keys, over all that ever came.

Storm's join is of one batch, whose number all tasks know. Here there is no such batch, and a join of what happens to come together
would be chance: so each side is kept in the state, and a tuple meets all of the other side that came before it.
"""

from typing import Any, Final

from kstorm.topology import (
    BasicOutputCollector,
    Fields,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Tuple,
)
from kstorm.trident.batches import Picked, Row
from kstorm.trident.state import text_of

Input = tuple[str, str]
_SIDES: Final = ("left", "right")


class Side:
    """One of the streams: where its tuples come from, and which of their fields are its key."""

    def __init__(self, inputs: set[Input], key: Picked, others: Picked) -> None:
        self.inputs, self.key, self.others = inputs, key, others


class KeyedJoinBolt(StatefulBasicBolt):
    """Emits for each tuple its key, the left side's other fields, the right side's, with every tuple of the other side."""

    def __init__(self, left: Side, right: Side, output: Fields) -> None:
        self._sides, self._output = (left, right), output

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key, left, right."""
        declarer.declare(self._output)

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Keeps it, and joins it."""
        source = tuple.source_component, tuple.source_stream
        number = next(place for place, side in enumerate(self._sides) if source in side.inputs)
        side, values = self._sides[number], (*tuple.values,)
        key, own = side.key.values(values), list(side.others.values(values))
        text = text_of(key)
        there: list[list[Any]] = self.state.get(f"{_SIDES[1 - number]}/{text}", [])
        self.state.put(f"{_SIDES[number]}/{text}", [*self.state.get(f"{_SIDES[number]}/{text}", []), own])
        for other in there:
            joined: Row = (*key, *own, *other) if number == 0 else (*key, *other, *own)
            collector.emit(joined)
