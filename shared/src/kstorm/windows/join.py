"""Join tuples of several streams by equal fields, within a window (Storm's `JoinBolt`).

joined = (
    JoinBolt("orders", "id")
    .join("payments", "order", prior="orders")
    .left_join("customers", "name", prior="orders", prior_field="customer")
    .select("id", "payments:at", "customers:city")
    .with_tumbling_window(Duration.minutes(1))
)
bolt = builder.set_bolt("joined", joined)
bolt.fields_grouping("orders", "id").fields_grouping("payments", "order")
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from kstorm.errors import ArgumentError, TopologyError
from kstorm.fitting import Text, checked
from kstorm.topology import DEFAULT_STREAM, Fields, OutputFieldsDeclarer, Tuple
from kstorm.topology.keys import comparable
from kstorm.windows.bolt import WindowedBolt
from kstorm.windows.window import TupleWindow

Row = dict[str, Tuple]
"""The tuples joined so far, by source."""


class _Join(NamedTuple):
    source: str
    field: str
    prior: str
    prior_field: str
    is_left: bool


class JoinBolt(WindowedBolt):
    """Emit every combination of a window's tuples whose join fields are equal. A source is a
    component, or a stream with `by_stream`.

    Fields are equal if they are the same key (`docs/development/adr/0018`): 1 and 1.0 are equal, 1 and True are
    not. None is equal to nothing, as in SQL.
    """

    @checked()
    def __init__(self, source: Text, field: Text, *, by_stream: bool = False) -> None:
        self._first, self._fields = source, {source: field}
        self._by_stream = by_stream
        self._joins: list[_Join] = []
        self._selected: list[str] = []
        self._stream = DEFAULT_STREAM

    @checked()
    def join(self, source: Text, field: Text, prior: Text, prior_field: Text | None = None) -> Self:
        """Add the tuples of `source` whose `field` equals a field of `prior`, an already joined
        source.

        The field of `prior` is the one that it was joined by, or `prior_field`, which Storm does
        not have. `"address.city"` is a field within a map. Raises `TopologyError` if `prior` is not
        joined yet, or if `source` already is.
        """
        return self._add(source, field, prior, prior_field, is_left=False)

    @checked()
    def left_join(
        self, source: Text, field: Text, prior: Text, prior_field: Text | None = None
    ) -> Self:
        """Like `join`, but keeps rows without a partner. Their fields of `source` are None.

        Storm drops a row if the field of `prior` is None or if `prior` itself is missing. kstorm
        keeps it, as SQL does.
        """
        return self._add(source, field, prior, prior_field, is_left=True)

    @checked()
    def select(self, *fields: Text) -> Self:
        """Select the output fields, which keep the names given here.

        `"city"` is the field of the first source that has it. `"customers:city"` is the field of
        one source, and `"customers:address.city"` is a field within a map.
        """
        names = [name.strip() for field in fields for name in field.split(",")]
        if not all(names):
            raise ArgumentError(
                f"select: {', '.join(map(repr, fields))} has a field without a name"
            )
        self._selected = names
        return self

    @checked()
    def with_output_stream(self, stream: Text) -> Self:
        """Set the stream to emit on. The default is the default stream."""
        self._stream = stream
        return self

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the selected fields. Raises `TopologyError` if none are selected, or if their
        source is not joined."""
        if not self._selected:
            raise TopologyError("the JoinBolt has no fields: call select")
        for name in self._selected:
            source, found, _ = name.partition(":")
            if found:
                self._check(source)
        declarer.declare_stream(self._stream, self._selected)

    def refuses_inputs(self, inputs: Mapping[tuple[str, str], Fields]) -> str:
        """Return why the inputs are not the joined sources, or ""."""
        place = 1 if self._by_stream else 0
        kind = ("component", "stream")[place]
        received = {input[place] for input in inputs}
        for source in sorted(received - self._fields.keys()):
            return (
                f"it receives the {kind} {source!r}, which it does not join: call join or "
                "left_join for it, or remove the grouping"
            )
        for source in sorted(self._fields.keys() - received):
            return f"it joins the {kind} {source!r}, which it does not receive: add a grouping"
        wanted = [*self._fields.items(), *((join.prior, join.prior_field) for join in self._joins)]
        for source, path in wanted:
            for input, fields in inputs.items():
                if input[place] == source and path.partition(".")[0] not in fields:
                    return (
                        f"it joins by the field {path!r} of the {kind} {source!r}, whose stream "
                        f"{input[1]!r} has {', '.join(fields) or 'no fields'}"
                    )
        return self._refuses_selection(inputs)

    def _refuses_selection(self, inputs: Mapping[tuple[str, str], Fields]) -> str:
        place = 1 if self._by_stream else 0
        for name in self._selected:
            source, found, path = name.partition(":")
            field = (path if found else name).partition(".")[0]
            known = [
                fields for input, fields in inputs.items() if not found or input[place] == source
            ]
            if not any(field in fields for fields in known):
                every = ", ".join(dict.fromkeys(one for fields in known for one in fields))
                return (
                    f"it selects {name!r}, but the fields of {repr(source) if found else 'its sources'} are "
                    f"{every or 'none'}: select one of these"
                )
        return ""

    def execute(self, window: TupleWindow) -> None:
        """Emit a tuple for each combination."""
        by_source: dict[str, list[Tuple]] = defaultdict(list)
        for tuple in window:
            by_source[tuple.source_stream if self._by_stream else tuple.source_component].append(
                tuple
            )
        rows: list[Row] = [{self._first: tuple} for tuple in by_source[self._first]]
        for join in self._joins:
            rows = list(_joined(rows, join, by_source[join.source]))
        for row in rows:
            self.collector.emit([_value(row, name) for name in self._selected], stream=self._stream)

    def _add(
        self, source: str, field: str, prior: str, prior_field: str | None, *, is_left: bool
    ) -> Self:
        self._check(prior)
        if source in self._fields:
            raise TopologyError(f"a JoinBolt joins {source!r} twice: join each source once")
        self._joins.append(_Join(source, field, prior, prior_field or self._fields[prior], is_left))
        self._fields[source] = field
        return self

    def _check(self, source: str) -> None:
        if source not in self._fields:
            raise TopologyError(
                f"a JoinBolt has not joined {source!r}: so far it has {', '.join(self._fields)}"
            )


def _joined(rows: Sequence[Row], join: _Join, tuples: Iterable[Tuple]) -> Iterable[Row]:
    partners: dict[Any, list[Tuple]] = defaultdict(list)
    for tuple in tuples:
        partners[_key(_within(tuple, join.field))].append(tuple)
    partners.pop(None, None)  # None is equal to nothing
    for row in rows:
        prior = row.get(join.prior)
        found = [] if prior is None else partners.get(_key(_within(prior, join.prior_field)), [])
        yield from ({**row, join.source: tuple} for tuple in found)
        if join.is_left and not found:
            yield row


def _key(value: Any) -> Any:
    """Return a dict key for a field's value."""
    (key,) = comparable([value])
    return key


def _value(row: Row, name: str) -> Any:
    source, found, path = name.partition(":")
    path = path if found else name
    for each in [source] if found else row:
        if each in row and path.partition(".")[0] in row[each]:
            return _within(row[each], path)
    return None


def _within(tuple: Tuple, path: str) -> Any:
    """Return the value of a field, or of a key in a map in that field."""
    first, *inner = path.split(".")
    value = tuple[first]
    for step in inner:
        value = value.get(step) if isinstance(value, dict) else None
    return value
