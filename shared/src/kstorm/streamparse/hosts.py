"""Run streamparse's classes as tasks: `StreamparseBolt` and `StreamparseSpout`.

Each task creates its own object of the class, as streamparse creates one per process.
"""

from collections import namedtuple
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any, Final, cast

from kstorm.errors import EmitError
from kstorm.fitting import checked
from kstorm.multilang.handshake import sort_settings, storm_conf, storm_context
from kstorm.multilang.metrics import metrics_of
from kstorm.streamparse.bolts import BatchingBolt, TicklessBatchingBolt
from kstorm.streamparse.bolts import Bolt as BoltOfStreamparse
from kstorm.streamparse.component import Component, Host, Tuple
from kstorm.streamparse.spouts import Spout as SpoutOfStreamparse
from kstorm.streamparse.streams import declare, streams_of
from kstorm.topology import (
    DEFAULT_STREAM,
    Bolt,
    Config,
    Fields,
    OutputCollector,
    OutputFieldsDeclarer,
    Source,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
)
from kstorm.topology import Tuple as KstormTuple

_NO_ID: Final = object()
"""Message ID of tuples without one. They count as pending, which slows down a spout whose bolts are
slower than it, as Storm's full queues do."""
_TICK: Final = "tick-"
"""Prefix of the IDs of tick tuples, to which nothing is anchored."""


class _Hosted:
    """Base class of both hosts, with settings, streams, metrics, and the object's start."""

    def _host(self, kind: type[Component], config: Mapping[str, Any] | None) -> None:
        self._kind = kind
        self._given: dict[str, Any] = dict((kind.config if config is None else config) or {})
        self._measured: dict[str, float] = {}
        self._object: Any = None

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declare(streams_of(self._kind.__name__, self._kind.outputs).values(), declarer)

    def get_component_configuration(self) -> dict[str, Any] | None:
        found = sort_settings(self._given)
        return {**found.known, **found.own}

    def metrics(self) -> Mapping[str, float]:
        return self._measured

    def _measure(self, name: str, value: Any) -> None:
        numbers = dict(metrics_of(name, value))
        if not numbers:
            self._object.logger.warning("the metric %s is %r: report numbers", name, value)
        self._measured |= numbers

    def _learn(self, config: Config, context: TopologyContext) -> None:
        self._conf = storm_conf(config, context, self._given)
        self._context = storm_context(context)

    def _alive(self) -> Any:
        """Return the object, and create a missing one."""
        if self._object is None:
            made = self._kind()
            made._setup(cast("Host", self), self._conf, self._context)
            made.initialize(self._conf, self._context)
            self._object = made
        return self._object


class StreamparseBolt(_Hosted, Bolt):
    """A streamparse bolt as a kstorm bolt, for a `TopologyBuilder` or a `BoltTester`."""

    @checked()
    def __init__(
        self, kind: type[BoltOfStreamparse], config: Mapping[str, Any] | None = None
    ) -> None:
        """`kind` is the class. `config` replaces its attribute `config`: settings by Storm's or
        kstorm's names."""
        self._host(kind, config)
        self._held: dict[str, KstormTuple] = {}
        self._ids = count(1)
        self._types: dict[tuple[str, str], Any] = {}

    def get_component_configuration(self) -> dict[str, Any] | None:
        found = super().get_component_configuration() or {}
        if issubclass(self._kind, TicklessBatchingBolt):
            found["topology_tick_tuple_freq_secs"] = self._kind.secs_between_batches
        return found

    def refuses_inputs(self, inputs: Mapping[tuple[str, str], Fields]) -> str:
        kind = self._kind
        ticks = (self.get_component_configuration() or {}).get("topology_tick_tuple_freq_secs")
        if ticks is None and not self._may_tick and _waits_for_ticks(kind):
            return (
                f"{kind.__name__} is a BatchingBolt, which processes its batches at ticks, and "
                "gets none: set config={'topology.tick.tuple.freq.secs': 1}, in the class or in "
                "spec()"
            )
        return ""

    _may_tick = False
    """True if the topology's settings request ticks for all bolts."""

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        self.config, self.context, self.collector = config, context, collector
        self._learn(config, context)
        self._alive()

    def execute(self, tuple: KstormTuple) -> None:
        id = str(next(self._ids))
        if tuple.is_tick:
            id = f"{_TICK}{id}"
        else:
            self._held[id] = tuple
        try:
            bolt = self._alive()
        except Exception:
            self._held.pop(id, None)
            raise
        values = self._type(tuple.source)(*tuple.values)
        task = -1 if tuple.is_tick else tuple.source_task
        try:
            bolt._run(Tuple(id, tuple.source_component, tuple.source_stream, task, values))
        except Exception as error:  # noqa: BLE001 - the class decides what fails, as in streamparse
            bolt._handle_run_exception(error)
            if self._kind.exit_on_exception:
                self._discard()

    def _discard(self) -> None:
        """Forget the object, which may be inconsistent, and fail the tuples that it still has."""
        self._object = None
        for id in list(self._held):
            self._fail(id)

    def _type(self, source: Source) -> Any:
        key = source.component, source.stream
        if key not in self._types:
            names = list(source.fields) or ["freq"]
            self._types[key] = namedtuple("Values", names, rename=True)
        return self._types[key]

    # For the object.

    def _emit(
        self,
        values: Sequence[Any],
        stream: str | None,
        anchors: Collection[str],
        message_id: Any,
        task: int | None,
    ) -> Sequence[int]:
        held = self._held
        gone = [id for id in anchors if id not in held and not id.startswith(_TICK)]
        if gone:
            raise EmitError(
                f"{self._kind.__name__} anchors to tuples that it acked or failed already: "
                f"{', '.join(gone)}; emit first, then ack"
            )
        return self.collector.emit(
            values,
            [held[id] for id in anchors if id in held],
            DEFAULT_STREAM if stream is None else stream,
            task,
        )

    def _ack(self, id: str) -> None:
        if (tuple := self._held.pop(id, None)) is not None:
            self.collector.ack(tuple)

    def _fail(self, id: str) -> None:
        if (tuple := self._held.pop(id, None)) is not None:
            self.collector.fail(tuple)

    def _report(self, error: BaseException) -> None:
        self.collector.report_error(error)


class StreamparseSpout(_Hosted, Spout):
    """A streamparse spout as a kstorm spout, for a `TopologyBuilder`."""

    @checked()
    def __init__(
        self, kind: type[SpoutOfStreamparse], config: Mapping[str, Any] | None = None
    ) -> None:
        """`kind` is the class. `config` replaces its attribute `config`: settings by Storm's or
        kstorm's names."""
        self._host(kind, config)

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self.config, self.context, self.collector = config, context, collector
        self._learn(config, context)
        self._alive()

    def activate(self) -> None:
        self._call("activate")

    def deactivate(self) -> None:
        self._call("deactivate")

    def next_tuple(self) -> None:
        self._call("next_tuple")

    def ack(self, message_id: Any) -> None:
        if message_id is not _NO_ID:
            self._call("ack", message_id)

    def fail(self, message_id: Any) -> None:
        if message_id is not _NO_ID:
            self._call("fail", message_id)

    def _call(self, method: str, *args: Any) -> None:
        try:
            getattr(self._alive(), method)(*args)
        except Exception:
            if self._kind.exit_on_exception:
                self._object = None
            raise

    # For the object.

    def _emit(
        self,
        values: Sequence[Any],
        stream: str | None,
        anchors: Collection[str],
        message_id: Any,
        task: int | None,
    ) -> Sequence[int]:
        return self.collector.emit(
            values,
            _NO_ID if message_id is None else message_id,
            DEFAULT_STREAM if stream is None else stream,
            task,
        )

    def _report(self, error: BaseException) -> None:
        self.collector.report_error(error)


def _waits_for_ticks(kind: type[Component]) -> bool:
    return issubclass(kind, BatchingBolt) and kind.process is BatchingBolt.process
