"""Joins of streams by key: over the whole history, or within windows.

Storm joins within a batch, whose number all tasks know. No such batch exists here, and joining the
tuples that happen to arrive together would give random results. So each side is stored in the
state, and a tuple is joined with all earlier tuples of the other side. A missing partner can only
be detected when a window ends, so outer joins need windows.
"""

from enum import StrEnum
from typing import Final

from kstorm.topology import (
    BasicOutputCollector,
    Fields,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Tuple,
)
from kstorm.topology.keys import key_text
from kstorm.trident.batches import FieldSelection, Row
from kstorm.trident.windows import Window
from kstorm.windows import TupleWindow, WindowedBolt

Input = tuple[str, str]
_SIDES: Final = ("left", "right")


class JoinType(StrEnum):
    """The streams whose tuples are emitted without a partner, with None in the other stream's
    fields.

    Storm uses `OUTER` for the stream that may be missing: its `mixed(INNER, OUTER)` is `LEFT`.
    """

    INNER = "inner"
    """Neither stream."""
    LEFT = "left"
    """The left stream."""
    RIGHT = "right"
    """The right stream."""
    FULL = "full"
    """Both streams (Storm's `OUTER`)."""


class JoinOutFieldsMode(StrEnum):
    """The output fields of a join."""

    COMPACT = "compact"
    """The key, the other fields of the left stream, and the other fields of the right stream."""
    PRESERVE = "preserve"
    """All fields of the left stream in their order, then all fields of the right one. The key is in
    both."""


class JoinSide:
    """One of the streams: its inputs and its key fields."""

    def __init__(
        self, inputs: set[Input], key: FieldSelection, others: FieldSelection, fields: Fields
    ) -> None:
        self.inputs, self.key, self.others = inputs, key, others
        names = [*key.fields, *others.fields]
        self._order = [names.index(name) for name in fields]

    def whole(self, key: Row, others: Row) -> Row:
        """Return all fields in their original order."""
        values = (*key, *others)
        return tuple(values[place] for place in self._order)


class JoinSides:
    """Both streams, and the output for a pair of tuples."""

    def __init__(self, left: JoinSide, right: JoinSide, mode: JoinOutFieldsMode) -> None:
        self.both, self._mode = (left, right), mode

    def number(self, tuple: Tuple) -> int:
        """Return the side of a tuple: 0 for the left stream, 1 for the right one."""
        source = tuple.source_component, tuple.source_stream
        return next(place for place, side in enumerate(self.both) if source in side.inputs)

    def row(self, key: Row, left: Row, right: Row) -> Row:
        """Return the output of a pair of tuples. `left` and `right` are the fields outside the
        key."""
        if self._mode == JoinOutFieldsMode.COMPACT:
            return (*key, *left, *right)
        one, other = self.both
        return (*one.whole(key, left), *other.whole(key, right))


class KeyedJoinBolt(StatefulBasicBolt):
    """Emits each tuple with every tuple of the other side that has the same key, without None."""

    def __init__(self, sides: JoinSides, output: Fields) -> None:
        self._sides, self._output = sides, output

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self._output)

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        number, values = self._sides.number(tuple), (*tuple.values,)
        side = self._sides.both[number]
        key, own = side.key.values(values), side.others.values(values)
        if None in key:
            return  # None is equal to nothing, as in SQL
        text = key_text(key)
        there: list[Row] = self.state.get(f"{_SIDES[1 - number]}/{text}", [])
        self.state.put(
            f"{_SIDES[number]}/{text}", [*self.state.get(f"{_SIDES[number]}/{text}", []), list(own)]
        )
        for other in there:
            collector.emit(self._sides.row(key, *((own, other) if number == 0 else (other, own))))


class WindowJoinBolt(WindowedBolt):
    """Emits every pair of a window's tuples with the same key. Outer joins add the tuples without a
    partner."""

    def __init__(self, sides: JoinSides, kind: JoinType, window: Window, output: Fields) -> None:
        self._sides, self._kind, self._output = sides, kind, output
        self._like(window)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self._output)

    def execute(self, window: TupleWindow) -> None:
        found: dict[str, tuple[Row, list[list[Row]]]] = {}
        for each in window:
            number, values = self._sides.number(each), (*each.values,)
            side = self._sides.both[number]
            key = side.key.values(values)
            # None is equal to nothing, as in SQL: each such tuple stays without a partner.
            text = f"/{len(found)}" if None in key else f"={key_text(key)}"
            _, both = found.setdefault(text, (key, [[], []]))
            both[number].append(side.others.values(values))
        left_stays = self._kind in (JoinType.LEFT, JoinType.FULL)
        right_stays = self._kind in (JoinType.RIGHT, JoinType.FULL)
        for key, (left, right) in found.values():
            for one in left or self._nothing(0, wanted=right_stays):
                for other in right or self._nothing(1, wanted=left_stays):
                    self.collector.emit(self._sides.row(key, one, other))

    def _nothing(self, number: int, *, wanted: bool) -> list[Row]:
        """Return a row of None in place of a side without tuples, if it is wanted."""
        return [(None,) * len(self._sides.both[number].others.fields)] if wanted else []
