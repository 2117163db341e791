"""The user's declaration of a pipeline: the reader of records, silver, and the gold tables.

    pipeline = Pipeline(records=json_records("customer STRING, amount DECIMAL(18,2), at TIMESTAMP"))

    @pipeline.gold("totals", keys=["customer"], add=["amount", "orders"], latest=["at"])
    def totals(fresh):
        return fresh.withColumn("orders", sf.lit(1))

Nothing here uses Spark: a pipeline is declared when its module is imported, before Spark starts.
`schemas` checks the declaration against real columns, and `refine` applies it.
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
"""A function that adds typed columns to rows with the column `record` (a struct of bronze's
columns).

If some records are unreadable, it also adds the column `reason`: a text for these, or null.
"""
RowFunction: TypeAlias = "Callable[[DataFrame], DataFrame]"


@runtime_checkable
class RunReader(Protocol):
    """A declaration of how to read records. It becomes a reader when a run starts."""

    def begin(self, settings: Settings, choice: str | None) -> BatchReader:
        """Return the reader of this run's records.

        `choice` is the previous run's if that run left a batch unfinished. That batch must be read
        again in the same way.
        """


@runtime_checkable
class BatchReader(Protocol):
    """A reader that examines a batch each time before it is read."""

    choice: str
    """The reader's choice for this run, such as a schema id. The next run may choose differently.
    Empty if the reader has no choice."""

    def prepare(self, rows: DataFrame) -> Reader:
        """Return the reader of these bronze rows. The same rows must always be read in one way."""


RULES = ("add", "min", "max", "latest", "replace")
"""Rules to combine a gold table's column with the batch's value."""
OVERFLOWS = ("apart", "saturate")
"""The treatments of a key whose sum no longer fits its column (`gold_overflow`)."""
SOURCE_ORDER = "source"
SINK_ORDER = "sink"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TAKEN = ("bronze", "silver", "quarantine")
DEFINITION = "kstorm.gold"
"""The property of a gold table that stores its declaration."""
POSITION = "position"
"""The column of a gold table that stores where its `latest` values come from."""
APART = "_overflow"
"""Suffix of the table with the rows of keys whose sums no longer fit."""
APART_BATCH = "overflow_batch"
"""Its column for the batch that added a row."""
SKETCH = "_sketch"
"""Suffix of the column with the sketch behind a distinct count."""


@dataclass(frozen=True, slots=True)
class BatchId:
    """Identifies a batch. A batch that is repeated after a crash keeps its id, which is unique."""

    query: str
    number: int


BatchFunction: TypeAlias = "Callable[[DataFrame, BatchId], None]"


@dataclass(frozen=True, slots=True)
class Gold:
    """The declaration of a gold table: one row per combination of keys, and rules for updates."""

    name: str
    keys: tuple[str, ...]
    rules: Mapping[str, str]
    """The other columns, each with its rule."""
    distinct: Mapping[str, str]
    """Counts of distinct values, each with the function's column that contains the values."""
    function: RowFunction
    """Derives rows with these columns from rows of silver. Rows with the same keys are combined."""
    order: str = SOURCE_ORDER
    """The order for `latest`: the source, the sink topic, or a column of this name."""
    ordered: bool = True
    """True if the user has chosen the order. Otherwise a column may be chosen if the function drops
    the rows' coordinates."""
    replays: bool = False
    """True if the function also gets replays, with a column `replay`."""
    overflow: str = "apart"
    """The treatment of a key whose sum no longer fits: one of OVERFLOWS."""

    def columns_by(self, *rules: str) -> list[str]:
        return [name for name, rule in self.rules.items() if rule in rules]

    @property
    def asked(self) -> list[str]:
        """The columns that the function must return, except those for the order of `latest`."""
        return list(dict.fromkeys([*self.keys, *self.rules, *self.distinct.values()]))

    @property
    def columns(self) -> list[str]:
        """All columns except `position`."""
        return [*self.keys, *self.rules, *self.distinct, *(name + SKETCH for name in self.distinct)]

    def definition(self) -> dict[str, object]:
        """Return everything that determines the table's rows, except the function's code."""
        rules = {rule: self.columns_by(rule) for rule in RULES if self.columns_by(rule)}
        order = {"order": self.order} if "latest" in rules else {}
        distinct = {"distinct": dict(self.distinct)} if self.distinct else {}
        return {
            "keys": list(self.keys),
            **rules,
            **distinct,
            **order,
            **({"replays": True} if self.replays else {}),
            **({"overflow": self.overflow} if self.overflow != OVERFLOWS[0] else {}),
        }

    @property
    def declared(self) -> str:
        """`definition` as JSON, for the table's property."""
        return json.dumps(self.definition())


@dataclass(slots=True)
class Pipeline:
    """The tables made from one topic. Without arguments: bronze and silver of any topic."""

    records: Reader | RunReader | BatchReader = field(default_factory=any_records)
    """Reads records into columns."""
    identity: str | Iterable[str] = ()
    """The columns that name an occurrence if the headers don't. Without them, each record is an
    occurrence of its own."""
    without: Iterable[str] = ()
    """Columns of the records to leave out of silver, such as the identity (in `occurrence`)."""
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
        """Return a copy for one run, whose reader knows the settings and the `choice`.

        `choice` is as for `RunReader.begin`.
        """
        if not isinstance(self.records, RunReader):
            return self
        pipeline = copy.copy(self)
        pipeline.records = self.records.begin(settings, choice)
        return pipeline

    def silver(self, function: RowFunction) -> RowFunction:
        """Decorate the function that turns typed rows into rows of silver.

        Its result for a row may depend only on that row. Raises PipelineError for a second
        function.
        """
        if self.silver_function is not None:
            raise PipelineError(
                f"a pipeline has only one silver function, and {self.silver_function.__name__} is it"
            )
        self.silver_function = function
        return function

    def batch(self, function: BatchFunction) -> BatchFunction:
        """Decorate a function that is called with a batch's new rows of silver, after all writes.

        If the process dies before the batch is recorded as done, the function is called again, even
        if it had returned. It gets the same rows and the same `BatchId`. So the function itself
        must make sure that a second call changes nothing.
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
        overflow: str = "apart",
    ) -> Callable[[RowFunction], RowFunction]:
        """Decorate the function that derives a gold table's rows from rows of silver.

        It gets the rows that a batch adds to silver, each occurrence once, and returns rows with
        the columns named here. It does not need to group them. `distinct` maps columns for
        approximate counts of distinct values to the columns with the values.

        `order` determines which row is later for `latest`. "source" compares the offset of the
        records' source messages, or the records' Kafka timestamps between source partitions. "sink"
        does the same for the records themselves. Any other value is a column that the function
        returns. The default is "source". If the function groups rows, the default is the first
        timestamp among the `latest` columns.

        With `replays` the function also gets records of occurrences that silver already has. The
        column `replay` is true for them.

        `overflow` decides about a key whose sum no longer fits the type of its column. With
        "apart" its row stays as it was, and the function's rows for it go to the table
        `<name>_overflow`. With "saturate" the column keeps the greatest or least value of its type.

        Raises PipelineError if the name or a column is taken or invalid, or if keys or other
        columns are missing.
        """
        given = zip(RULES, map(_names, (add, min, max, latest, replace)), strict=True)
        columns = [(column, rule) for rule, names in given for column in names]
        made_of = _names(keys)
        if overflow not in OVERFLOWS:
            raise PipelineError(
                f"the gold table {name!r}: overflow={overflow!r} is unknown: "
                f"give one of {', '.join(map(repr, OVERFLOWS))}"
            )
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
                overflow,
            )
            return function

        return declare


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _check(name: str, columns: list[str], golds: Mapping[str, Gold]) -> None:
    if not _NAME.fullmatch(name) or name in _TAKEN:
        raise PipelineError(
            f"a gold table cannot be called {name!r}: "
            f"use lowercase letters, digits and '_', and none of {', '.join(_TAKEN)}"
        )
    for other in golds:
        if name in (other + APART, other.removesuffix(APART)) and name != other:
            raise PipelineError(
                f"a gold table cannot be called {name!r} next to {other!r}: "
                f"a name with {APART!r} is for the rows of keys that overflow"
            )
    if name in golds:
        raise PipelineError(f"there are two gold tables {name!r}: give one of them another name")
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise PipelineError(
            f"the gold table {name!r} names {', '.join(twice)} twice: "
            "a column is a key or has one rule"
        )
    taken = [column for column in columns if column.lower() in (POSITION, APART_BATCH)]
    if taken:
        raise PipelineError(
            f"the gold table {name!r} cannot have a column {taken[0]!r}: "
            "the pipeline has one of that name"
        )
