"""Assemblies: several operations under one name (Storm's `FirstN`)."""

from kstorm.errors import TopologyError
from kstorm.topology import Fields
from kstorm.trident.first_tuples import FirstStep, by_field
from kstorm.trident.steps import Step
from kstorm.trident.stream import Assembly, Stream


class FirstN(Assembly):
    """The first tuples of each batch of each task by a field: the lowest, or the highest with
    `reverse`.

    Tuples with None in the field are ignored. Without a field, the first tuples in order of arrival
    are kept.
    """

    def __init__(
        self, number: int, sort_field: str | None = None, *, reverse: bool = False
    ) -> None:
        """`number` must be at least 1, otherwise `TopologyError` is raised."""
        if number < 1:
            raise TopologyError(f"FirstN({number}): give a number of at least 1")
        self._number, self._field, self._reverse = number, sort_field, reverse

    def apply(self, stream: Stream) -> Stream:
        number, field, reverse = self._number, self._field, self._reverse

        def make(fields: Fields) -> tuple[Fields, Step]:
            if field is None:
                return fields, FirstStep(number, None, reverse=reverse)
            return by_field(number, field, None, reverse, fields)  # type: ignore[no-any-return]

        shown = "" if field is None else f", {field}{', reverse' if reverse else ''}"
        return stream._step(f"first({number}{shown})", "first", make)
