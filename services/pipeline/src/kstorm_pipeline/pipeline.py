"""What a user says of the pipeline: how records are read, what silver is, which gold tables there are.

    pipeline = Pipeline(records=json_records("customer STRING, amount DECIMAL(18,2), at TIMESTAMP"))

    @pipeline.gold("totals", keys=["customer"], add=["amount", "orders"], latest=["at"])
    def totals(fresh):
        return fresh.withColumn("orders", sf.lit(1))

Nothing here touches Spark: a pipeline is made when its module is imported, before Spark starts. `schemas` checks what it says
against real columns, `refine` carries it out.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.records import any_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kstorm_pipeline.settings import Settings

Reader: TypeAlias = "Callable[[DataFrame], DataFrame]"
"""From rows with the column `record` (bronze's columns, in a struct) to the same rows with typed columns beside it, and with
`reason` where some cannot be read: text that says why not, or null."""
RowFunction: TypeAlias = "Callable[[DataFrame], DataFrame]"


@runtime_checkable
class RunReader(Protocol):
    """Says how records are read, and becomes what reads them when a run begins: the settings tell it more."""

    def begin(self, settings: Settings, choice: str | None) -> BatchReader:
        """What reads the records of this run. `choice` is that of the run before, if it has left a batch half done: the batch must
        be read again as it was."""


@runtime_checkable
class BatchReader(Protocol):
    """Looks at each batch before it is read, as often as that is."""

    choice: str
    """What it has chosen for this run by itself, and the next run may choose otherwise; empty: nothing."""

    def prepare(self, rows: DataFrame) -> Reader:
        """What reads this batch of bronze rows; the same rows must always be read in the same way."""


RULES = ("add", "min", "max", "latest", "replace")
"""How a column of a gold table and what a batch has for it become one."""
SOURCE_ORDER = "source"
SINK_ORDER = "sink"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TAKEN = ("bronze", "silver", "quarantine")
DEFINITION = "kstorm.gold"
"""The property of a gold table that says how it was declared."""
POSITION = "position"
"""The column of a gold table that says where its `latest` come from."""
SKETCH = "_sketch"
"""What the column that a distinct count is made of is called, after the count's own name."""


@dataclass(frozen=True, slots=True)
class BatchId:
    """What a batch is known by: a batch that runs again after a crash has the same, and no other batch has."""

    query: str
    number: int


BatchFunction: TypeAlias = "Callable[[DataFrame, BatchId], None]"


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold table: one row for each combination of keys, and how a batch changes it."""

    name: str
    keys: tuple[str, ...]
    rules: Mapping[str, str]
    """The other columns, each with its rule."""
    distinct: Mapping[str, str]
    """Counts of different values, each with the column of the function that has the values."""
    function: RowFunction
    """From rows of silver to rows with these columns; those with the same keys become one."""
    order: str = SOURCE_ORDER
    """What `latest` means: by the source, by the sink topic, or by a column of this name."""
    ordered: bool = True
    """Whether the user has said that. Else a column tells where the function leaves out where rows come from."""
    replays: bool = False
    """Whether the function gets replays too, with a column `replay`."""

    def columns_by(self, *rules: str) -> list[str]:
        """The columns that have one of the rules."""
        return [name for name, rule in self.rules.items() if rule in rules]

    @property
    def asked(self) -> list[str]:
        """The columns that the function must return, but for what `latest` goes by."""
        return list(dict.fromkeys([*self.keys, *self.rules, *self.distinct.values()]))

    @property
    def columns(self) -> list[str]:
        """All columns, but for `position`."""
        return [*self.keys, *self.rules, *self.distinct, *(name + SKETCH for name in self.distinct)]

    def definition(self) -> dict[str, object]:
        """What the rows of the table depend on, but for the function's code."""
        rules = {rule: self.columns_by(rule) for rule in RULES if self.columns_by(rule)}
        order = {"order": self.order} if "latest" in rules else {}
        distinct = {"distinct": dict(self.distinct)} if self.distinct else {}
        return {
            "keys": list(self.keys),
            **rules,
            **distinct,
            **order,
            **({"replays": True} if self.replays else {}),
        }

    @property
    def declared(self) -> str:
        """`definition` as the table's property has it."""
        return json.dumps(self.definition())


@dataclass(slots=True)
class Pipeline:
    """The tables that are made of one topic. Without arguments: of any topic, bronze and silver alone."""

    records: Reader | RunReader | BatchReader = field(default_factory=any_records)
    """How a record becomes columns."""
    identity: str | Iterable[str] = ()
    """The columns that name an occurrence where the record's headers do not; without them each record is one of its own."""
    without: Iterable[str] = ()
    """Columns of the records that silver does not get: such as the identity, which it has as `occurrence`."""
    silver_function: RowFunction | None = field(default=None, init=False)
    golds: dict[str, Gold] = field(default_factory=dict, init=False)
    batch_functions: list[BatchFunction] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.identity = _names(self.identity)
        self.without = _names(self.without)

    @property
    def identity_columns(self) -> tuple[str, ...]:
        """`identity`, always as a tuple."""
        assert isinstance(self.identity, tuple)
        return self.identity

    def begun(self, settings: Settings, choice: str | None = None) -> Pipeline:
        """The same for one run, whose settings its reader knows; `choice` is as for `RunReader.begin`."""
        if not isinstance(self.records, RunReader):
            return self
        pipeline = copy.copy(self)
        pipeline.records = self.records.begin(settings, choice)
        return pipeline

    def silver(self, function: RowFunction) -> RowFunction:
        """Decorate the function from typed rows to the rows of silver. It may look at each row by itself, and at nothing else."""
        if self.silver_function is not None:
            raise PipelineError(
                f"a pipeline has one silver function: {self.silver_function.__name__} is it already"
            )
        self.silver_function = function
        return function

    def batch(self, function: BatchFunction) -> BatchFunction:
        """Decorate a function that does what it likes with the rows that a batch adds to silver, after all tables are written.

        It is called again with the same rows and the same `BatchId` if the process dies before the batch is noted as done, even
        if the function has returned by then. So it must see to it itself that the second time changes nothing.
        """
        self.batch_functions.append(function)
        return function

    def gold(
        self,
        name: str,
        *,
        keys: Iterable[str],
        add: Iterable[str] = (),
        min: Iterable[str] = (),
        max: Iterable[str] = (),
        latest: Iterable[str] = (),
        replace: Iterable[str] = (),
        distinct: Mapping[str, str] | None = None,
        order: str | None = None,
        replays: bool = False,
    ) -> Callable[[RowFunction], RowFunction]:
        """Decorate the function that says what rows of silver give to a gold table.

        It gets the rows that a batch adds to silver, each occurrence once, and returns rows with the columns named here; it need
        not group them. `distinct` has columns that count different values, about, each with the column that has the values.

        `order` says what is later for `latest`: "source" (offset of the message that a record was made of, between source
        partitions the record's Kafka timestamp), "sink" (the same of the record itself), or a column that it returns. By default
        it is "source"; if the function groups rows, it is the first of the `latest` columns that is a time.

        With `replays` it also gets the records of occurrences that silver has, told apart by the column `replay`.
        """
        given = zip(RULES, map(_names, (add, min, max, latest, replace)), strict=True)
        columns = [(column, rule) for rule, names in given for column in names]
        made_of = _names(keys)
        counted = dict(distinct or {})
        sketches = [column + SKETCH for column in counted]
        _check(
            name, [*made_of, *(column for column, _ in columns), *counted, *sketches], self.golds
        )
        if not made_of or not (columns or counted):
            raise PipelineError(
                f"the gold table {name!r} needs keys, and a column with a rule ({', '.join(RULES)}, distinct)"
            )

        def declare(function: RowFunction) -> RowFunction:
            self.golds[name] = Gold(
                name,
                made_of,
                dict(columns),
                counted,
                function,
                order or SOURCE_ORDER,
                order is not None,
                replays,
            )
            return function

        return declare


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _check(name: str, columns: list[str], golds: Mapping[str, Gold]) -> None:
    if not _NAME.fullmatch(name) or name in _TAKEN:
        raise PipelineError(
            f"a gold table cannot be called {name!r}: give small letters, digits and '_', and none of {', '.join(_TAKEN)}"
        )
    if name in golds:
        raise PipelineError(f"there are two gold tables {name!r}: give one of them another name")
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise PipelineError(
            f"the gold table {name!r} names {', '.join(twice)} twice: a column is a key or has one rule"
        )
    if POSITION in columns:
        raise PipelineError(
            f"the gold table {name!r} cannot have a column {POSITION!r}: the pipeline has one of that name"
        )
