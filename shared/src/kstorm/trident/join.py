"""Joins of streams by keys: over all that ever came, or within windows.

Storm's join is of one batch, whose number all tasks know. Here there is no such batch, and a join of what happens to come together
would be chance: so each side is kept in the state, and a tuple meets all of the other side that came before it. That a tuple has
no partner can be said where there is an end, so outer joins are within windows.
"""

from collections import defaultdict
from enum import StrEnum
from typing import Final

from kstorm.topology import (
    BasicOutputCollector,
    Fields,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Tuple,
)
from kstorm.trident.batches import Picked, Row
from kstorm.trident.state import text_of
from kstorm.trident.windows import Window
from kstorm.windows import TupleWindow, WindowedBolt

Input = tuple[str, str]
_SIDES: Final = ("left", "right")


class JoinType(StrEnum):
    """Whose tuples come out without a partner, with None in the other stream's fields. Storm says `OUTER` of the stream that may be
    missing: `mixed(INNER, OUTER)` is `LEFT`."""

    INNER = "inner"
    """Nobody's."""
    LEFT = "left"
    """The left stream's."""
    RIGHT = "right"
    """The right stream's."""
    FULL = "full"
    """Both streams' (Storm's `OUTER`)."""


class JoinOutFieldsMode(StrEnum):
    """Which fields come out of a join."""

    COMPACT = "compact"
    """The key, the other fields of the left stream, those of the right one."""
    PRESERVE = "preserve"
    """All fields of the left stream in their order, and all of the right one: the key is in both."""


class Side:
    """One of the streams: where its tuples come from, and which of their fields are its key."""

    def __init__(self, inputs: set[Input], key: Picked, others: Picked, fields: Fields) -> None:
        self.inputs, self.key, self.others = inputs, key, others
        names = [*key.fields, *others.fields]
        self._order = [names.index(name) for name in fields]

    def whole(self, key: Row, others: Row) -> Row:
        """All fields, in their order."""
        values = (*key, *others)
        return tuple(values[place] for place in self._order)


class Sides:
    """Both, and what comes out of two tuples."""

    def __init__(self, left: Side, right: Side, mode: JoinOutFieldsMode) -> None:
        self.both, self._mode = (left, right), mode

    def number(self, tuple: Tuple) -> int:
        """Whose tuple it is: 0 the left one's, 1 the right one's."""
        source = tuple.source_component, tuple.source_stream
        return next(place for place, side in enumerate(self.both) if source in side.inputs)

    def row(self, key: Row, left: Row, right: Row) -> Row:
        """Of their other fields."""
        if self._mode == JoinOutFieldsMode.COMPACT:
            return (*key, *left, *right)
        one, other = self.both
        return (*one.whole(key, left), *other.whole(key, right))


class KeyedJoinBolt(StatefulBasicBolt):
    """Emits each tuple with every tuple of the other side that has its key."""

    def __init__(self, sides: Sides, output: Fields) -> None:
        self._sides, self._output = sides, output

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """What comes out of two."""
        declarer.declare(self._output)

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Keeps it, and joins it."""
        number, values = self._sides.number(tuple), (*tuple.values,)
        side = self._sides.both[number]
        key, own = side.key.values(values), side.others.values(values)
        text = text_of(key)
        there: list[Row] = self.state.get(f"{_SIDES[1 - number]}/{text}", [])
        self.state.put(
            f"{_SIDES[number]}/{text}", [*self.state.get(f"{_SIDES[number]}/{text}", []), list(own)]
        )
        for other in there:
            collector.emit(self._sides.row(key, *((own, other) if number == 0 else (other, own))))


class WindowJoinBolt(WindowedBolt):
    """Emits of each window every pair with the same key, and what an outer join has beside it."""

    def __init__(self, sides: Sides, kind: JoinType, window: Window, output: Fields) -> None:
        self._sides, self._kind, self._output = sides, kind, output
        self._like(window)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """What comes out of two."""
        declarer.declare(self._output)

    def execute(self, window: TupleWindow) -> None:
        """Joins the tuples of a window."""
        found: defaultdict[str, tuple[Row, list[list[Row]]]] = defaultdict(lambda: ((), [[], []]))
        for each in window:
            number, values = self._sides.number(each), (*each.values,)
            side = self._sides.both[number]
            key = side.key.values(values)
            text = text_of(key)
            _, both = found[text]
            both[number].append(side.others.values(values))
            found[text] = key, both
        left_stays = self._kind in (JoinType.LEFT, JoinType.FULL)
        right_stays = self._kind in (JoinType.RIGHT, JoinType.FULL)
        for key, (left, right) in found.values():
            for one in left or self._nothing(0, wanted=right_stays):
                for other in right or self._nothing(1, wanted=left_stays):
                    self.collector.emit(self._sides.row(key, one, other))

    def _nothing(self, number: int, *, wanted: bool) -> list[Row]:
        """In the place of a side that has no tuple."""
        return [(None,) * len(self._sides.both[number].others.fields)] if wanted else []
