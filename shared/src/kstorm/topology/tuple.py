"""The unit of data between components, and its position in its tuple tree.

Nearly every tuple belongs to a single tree. So it has one `(root, edge)` pair in two plain
attributes, and a tuple that is anchored to several trees has the other pairs in `more`. The bolt
task that executes it keeps in `ack_val` the XOR of the edges emitted with this tuple as anchor, as
Storm's `TupleImpl` does. So an ack takes a single XOR.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from kstorm.topology.fields import Fields

DEFAULT_STREAM: Final = "default"
SYSTEM_COMPONENT: Final = "__system"
TICK_STREAM: Final = "__tick"


class Source(Struct, frozen=True):
    """The origin of tuples: one stream of one task. Shared by all of these tuples in a frame."""

    component: str
    stream: str
    task: int
    """Topology-wide task id, as in Storm."""
    fields: Fields


class Tuple(Struct, eq=False):
    """A named list of values: `tuple["word"]`, `tuple[0]`, `tuple.values`."""

    values: Sequence[Any]
    source: Source
    root: int = 0
    """Root id of the spout tuple that this tuple descends from. 0 if it is not tracked."""
    edge: int = 0
    """This tuple's own random 64-bit id in the tree of `root`."""
    more: dict[int, int] | None = None
    """Further `root → edge` pairs of a multi-anchored tuple."""
    ack_val: int = 0
    """XOR of the edges of the tuples anchored to this one so far."""
    finished: bool = False
    """True once it was acked or failed."""

    def __getitem__(self, key: "str | int") -> Any:
        if type(key) is int:
            return self.values[key]
        return self.values[self.source.fields.index(key)]  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __contains__(self, field: object) -> bool:
        return field in self.source.fields

    def get(self, field: str, default: Any = None) -> Any:
        """Return the value of a field, or `default` if the stream does not have it.

        `tuple[field]` raises in that case.
        """
        return self[field] if field in self.source.fields else default

    def select(self, *fields: "str | Iterable[str]") -> list[Any]:
        """Return the values of some fields, in the given order: `tuple.select("word", "count")`, or
        `select(Fields(…))`.

        Raises `KeyError` with the known names if a field does not exist.
        """
        return self.source.fields.select(Fields(*fields), self.values)

    def field_index(self, field: str) -> int:
        """Return the position of a field.

        Raises `KeyError` with the known names if it does not exist.
        """
        return self.source.fields.index(field)

    @property
    def fields(self) -> Fields:
        """The field names of the stream."""
        return self.source.fields

    @property
    def source_component(self) -> str:
        """Id of the component that emitted this tuple."""
        return self.source.component

    @property
    def source_stream(self) -> str:
        """Id of the stream that it was emitted on."""
        return self.source.stream

    @property
    def source_task(self) -> int:
        """Topology-wide id of the task that emitted it."""
        return self.source.task

    @property
    def is_tick(self) -> bool:
        """True for a tick tuple (`topology_tick_tuple_freq_secs`). An ack of a tick tuple has no
        effect."""
        return self.source.stream == TICK_STREAM and self.source.component == SYSTEM_COMPONENT

    def roots(self) -> Iterator[int]:
        """Yield the root ids of all spout tuples that this tuple descends from."""
        if self.root:
            yield self.root
        if self.more:
            yield from self.more

    def as_dict(self) -> dict[str, Any]:
        """Return the values by field name."""
        return dict(zip(self.source.fields.names, self.values, strict=True))
