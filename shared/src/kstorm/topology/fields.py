"""The names of the values in a stream's tuples (Storm's `Fields`)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kstorm.errors import TopologyError


class Fields:
    """An ordered set of field names: `Fields("word", "count")`, or `Fields(["word", "count"])`.

    Raises `TopologyError` for a name that is not a non-empty string or that occurs twice.
    """

    __slots__ = ("_index", "names")

    def __init__(self, *names: "str | Iterable[str]") -> None:
        flat: list[str] = []
        for name in names:
            flat.extend(
                [name] if isinstance(name, str | bytes) or not isinstance(name, Iterable) else name
            )
        for name in flat:
            if not isinstance(name, str) or not name:
                raise TopologyError(f"{name!r} is not a field name: use non-empty strings")
        if len(set(flat)) != len(flat):
            twice = next(name for name in flat if flat.count(name) > 1)
            raise TopologyError(
                f"the field {twice!r} is declared twice in {flat}: give each field its own name"
            )
        self.names: tuple[str, ...] = tuple(flat)
        self._index = {name: position for position, name in enumerate(flat)}

    def index(self, name: str) -> int:
        """Return the position of a field.

        Raises `KeyError` with the known names if it does not exist.
        """
        try:
            return self._index[name]
        except KeyError:
            raise KeyError(
                f"no field {name!r}; this stream has {', '.join(self.names) or 'no fields'}"
            ) from None

    def select(self, selector: "str | Iterable[str]", values: Sequence[Any]) -> list[Any]:
        """Return the values of `selector`, in its order: `fields.select(["word"], values)`.

        `values` are those of a tuple with these fields. Raises `KeyError` as `index` does.
        """
        names = (selector,) if isinstance(selector, str) else selector
        return [values[self.index(name)] for name in names]

    def __getitem__(self, position: int) -> str:
        return self.names[position]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Fields({', '.join(map(repr, self.names))})"
