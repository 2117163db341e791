"""Joins of streams by key: over the whole history, or within windows.

Storm joins within a batch, whose number all tasks know. No such batch exists here, and joining the
tuples that happen to arrive together would give random results. So each side is stored in the
state, and a tuple is joined with all earlier tuples of the other side. A missing partner can only
be detected when a window ends, so outer joins need windows.
"""

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from itertools import chain, product
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
"""Names of the first two sides in stored keys. Others have their number."""


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

    @property
    def optional(self) -> frozenset[int]:
        """Numbers of the streams that may lack a tuple: 0 for the left one, 1 for the right one."""
        without = {JoinType.LEFT: {1}, JoinType.RIGHT: {0}, JoinType.FULL: {0, 1}}
        return frozenset(without.get(self, set()))


class JoinOutFieldsMode(StrEnum):
    """The output fields of a join."""

    COMPACT = "compact"
    """The key, the other fields of the first stream, and the other fields of the next ones."""
    PRESERVE = "preserve"
    """All fields of the first stream in their order, then all fields of the next ones. The key is
    in each."""


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
    """The streams, and the output for one tuple of each."""

    def __init__(
        self, sides: Sequence[JoinSide], mode: JoinOutFieldsMode, optional: Collection[int] = ()
    ) -> None:
        """`optional` are the numbers of the streams that may lack a tuple."""
        self.all, self._mode = tuple(sides), mode
        self._nothing = [
            [(None,) * len(side.others.fields)] if number in optional else []
            for number, side in enumerate(self.all)
        ]

    def number(self, tuple: Tuple) -> int:
        """Return the side of a tuple, from 0."""
        source = tuple.source_component, tuple.source_stream
        return next(place for place, side in enumerate(self.all) if source in side.inputs)

    def rows(self, key: Row, others: Sequence[Sequence[Row]]) -> Iterator[Row]:
        """Yield the outputs of all combinations. `others` are each side's fields outside the
        key."""
        rows = [found or nothing for found, nothing in zip(others, self._nothing, strict=True)]
        for each in product(*rows):
            if self._mode == JoinOutFieldsMode.COMPACT:
                yield (*key, *chain.from_iterable(each))
            else:
                yield tuple(
                    chain.from_iterable(
                        side.whole(key, own) for side, own in zip(self.all, each, strict=True)
                    )
                )


class KeyedJoinBolt(StatefulBasicBolt):
    """Emits each tuple with every combination of the other sides' tuples that have the same key,
    without None."""

    def __init__(self, sides: JoinSides, output: Fields) -> None:
        self._sides, self._output = sides, output

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self._output)

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        number, values = self._sides.number(tuple), (*tuple.values,)
        side = self._sides.all[number]
        key, own = side.key.values(values), side.others.values(values)
        if None in key:
            return  # None is equal to nothing, as in SQL
        text = key_text(key)
        names = [f"{_name(each)}/{text}" for each in range(len(self._sides.all))]
        rows: list[list[Row]] = [self.state.get(name, []) for name in names]
        self.state.put(names[number], [*rows[number], list(own)])
        rows[number] = [own]
        for row in self._sides.rows(key, rows):
            collector.emit(row)


class WindowJoinBolt(WindowedBolt):
    """Emits every combination of a window's tuples with the same key. A stream that may lack a
    tuple has None then."""

    def __init__(self, sides: JoinSides, window: Window, output: Fields) -> None:
        self._sides, self._output = sides, output
        self._like(window)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self._output)

    def execute(self, window: TupleWindow) -> None:
        found: dict[str, tuple[Row, list[list[Row]]]] = {}
        for each in window:
            number, values = self._sides.number(each), (*each.values,)
            side = self._sides.all[number]
            key = side.key.values(values)
            # None is equal to nothing, as in SQL: each such tuple stays without a partner.
            text = f"/{len(found)}" if None in key else f"={key_text(key)}"
            _, rows = found.setdefault(text, (key, [[] for _ in self._sides.all]))
            rows[number].append(side.others.values(values))
        for key, rows in found.values():
            for row in self._sides.rows(key, rows):
                self.collector.emit(row)


def _name(number: int) -> str:
    return _SIDES[number] if number < len(_SIDES) else str(number)
