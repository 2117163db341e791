"""The collector for functions and aggregators of a stream. It buffers their output until a batch is
made."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from kstorm.core.sendable import ROWS, check_values
from kstorm.core.watched_buffers import BufferWatch
from kstorm.errors import EmitError
from kstorm.trident.batches import Column
from kstorm.trident.operations import name_of


class EmitBuffer:
    """Buffers the output of an operation with a number of output fields."""

    def __init__(self, operation: object, width: int) -> None:
        self._operation, self._width = operation, width
        self.found: list[Any] = []
        """The values of each emit."""
        self.at: list[int] = []
        """The position of the input that each emit belongs to."""

    def emit(self, values: Sequence[Any]) -> None:
        if type(values) not in ROWS:
            check_values(name_of(self._operation), values)
        if len(values) != self._width:
            raise self._wrong(values)
        self.found.append((*values,))

    def all_for(self, place: int) -> None:
        """Assign everything emitted since the last call to the tuple or group at `place`."""
        more = len(self.found) - len(self.at)
        if more:
            self.at += repeat(place, more)

    def columns(self) -> list[Column]:
        """Return the output fields as columns."""
        if not self.found:
            return [[] for _ in range(self._width)]
        return [list(column) for column in zip(*self.found, strict=True)]

    def _wrong(self, values: Sequence[Any]) -> EmitError:
        return EmitError(
            f"{name_of(self._operation)} emitted {len(values)} values, but has {self._width} "
            "output fields: emit one value per field"
        )


class _SingleFieldBuffer(EmitBuffer):
    """Buffers one output field. Without a tuple around each value, an emit takes two thirds of the
    time."""

    def emit(self, values: Sequence[Any]) -> None:
        if type(values) not in ROWS:
            check_values(name_of(self._operation), values)
        try:
            (value,) = values
        except ValueError:
            raise self._wrong(values) from None
        self.found.append(value)

    def columns(self) -> list[Column]:
        return [self.found]


def make_emit_buffer(operation: object, width: int, watch: BufferWatch | None) -> EmitBuffer:
    """Return a collector for `width` output fields, which `watch` watches."""
    buffer = _SingleFieldBuffer(operation, width) if width == 1 else EmitBuffer(operation, width)
    if watch is not None:
        watch(buffer, name_of(operation))
    return buffer
