"""A bolt that drops duplicates, for sources that deliver a message more than once."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from kstorm.fitting import Positive, Text, checked
from kstorm.topology.collectors import BasicOutputCollector
from kstorm.topology.components import StatefulBasicBolt
from kstorm.topology.declarer import OutputFieldsDeclarer
from kstorm.topology.fields import Fields
from kstorm.topology.keys import comparable, list_text
from kstorm.topology.tuple import Tuple

_NEXT: Final = "next"


class DistinctBolt(StatefulBasicBolt):
    """Passes on a tuple, unless its ID is among the last IDs that this task has passed on.

    Group its input by the ID field, so that all tuples with the same ID reach the same task. With
    exactly once, no ID is passed on twice within the window. With at least once, a replayed tuple
    may be.
    """

    @checked()
    def __init__(
        self, fields: Sequence[str] | str, id_field: Text, window: Positive = 100_000
    ) -> None:
        """`fields` are the fields to pass on. All others are dropped.

        `window` is the number of IDs that each task remembers, with two state entries per ID.
        Choose more than the number of messages between a message and its duplicate.
        """
        self._fields = [fields] if isinstance(fields, str) else list(fields)
        self._id_field, self._window = id_field, window

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the fields that are passed on."""
        declarer.declare(self._fields)

    def refuses_inputs(self, inputs: Mapping[tuple[str, str], Fields]) -> str:
        """Return which field an input lacks, or ""."""
        for (component, stream), fields in inputs.items():
            for name in [self._id_field, *self._fields]:
                if name not in fields:
                    return (
                        f"it needs the field {name!r}, but the stream {stream!r} of {component!r} "
                        f"has {', '.join(fields) or 'no fields'}: name one of these"
                    )
        return ""

    def grouped_by(self) -> Collection[str]:
        return (self._id_field,)

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Remember the ID and pass on the tuple. A duplicate is only acked.

        Raises `KeyError` if the tuple does not have the fields.
        """
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
    """Return a state key that distinguishes ids of different types: 1 and "1" are two ids."""
    (value,) = comparable([id])
    return f"={value!r}" if type(value) is str else f"={list_text([value])[1:-1]}"
