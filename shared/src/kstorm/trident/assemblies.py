"""Assemblies: several operations under one name (Storm's `FirstN`)."""

from kstorm.fitting import Positive, Text, checked
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

    @checked()
    def __init__(
        self, number: Positive, sort_field: Text | None = None, *, reverse: bool = False
    ) -> None:
        self._number, self._field, self._reverse = number, sort_field, reverse

    def apply(self, stream: Stream) -> Stream:
        number, field, reverse = self._number, self._field, self._reverse

        def make(fields: Fields) -> tuple[Fields, Step]:
            if field is None:
                return fields, FirstStep(number, None, reverse=reverse)
            return by_field(number, field, None, reverse, fields)  # type: ignore[no-any-return]

        shown = "" if field is None else f", {field}{', reverse' if reverse else ''}"
        return stream._step(f"first({number}{shown})", "first", make)
