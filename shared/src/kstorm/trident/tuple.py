"""The tuple that functions, filters and aggregators of a stream receive (Storm's
`TridentTuple`)."""

from collections.abc import Iterator, Sequence
from typing import Any

from kstorm.topology import Fields


class TridentTuple:
    """The values of an operation's input fields, by name."""

    __slots__ = ("fields", "values")

    def __init__(self, values: Sequence[Any], fields: Fields) -> None:
        self.values = values
        """In the order in which the operation lists its input fields."""
        self.fields = fields

    def __getitem__(self, field: str | int) -> Any:
        return self.values[field if isinstance(field, int) else self.fields.index(field)]

    def get(self, field: str, default: Any = None) -> Any:
        """Return the value of a field, or `default` if the field does not exist."""
        return self.values[self.fields.index(field)] if field in self.fields else default

    def as_dict(self) -> dict[str, Any]:
        """Return the values by field."""
        return dict(zip(self.fields, self.values, strict=True))

    def __contains__(self, field: object) -> bool:
        return field in self.fields

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"TridentTuple({self.as_dict()})"
