"""Test one bolt directly: give it tuples, then check its emits, their anchors and the finished
messages.

    split = BoltTester(SplitSentence(), "sentence")
    message = split.give(["the cow"])
    assert split.emitted() == [["the"], ["cow"]]
    assert split.acked == [message]

It runs the same bolt task as the services, in a topology of one bolt. Emitted tuples go to a
consumer that acks them immediately. So a message is done as soon as the bolt has acked all of its
tuples.
"""

import sys
import weakref
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, Generic, TypeVar

from kstorm.core.bolt_task import BoltTask
from kstorm.core.ids import NextId
from kstorm.core.outbox import Outbox
from kstorm.core.sendable import Sendable
from kstorm.core.task_state import TaskState
from kstorm.core.user_code import Steps
from kstorm.core.wire import (
    VERSION,
    AckFrame,
    TupleFrame,
    decode,
    encode,
    pack_ids,
    unpack_ids,
    unpack_pairs,
)
from kstorm.errors import TopologyError, UnsendableError
from kstorm.fitting import Text, checked
from kstorm.testing.capture import TupleCaptureBolt
from kstorm.testing.spouts import FeederSpout
from kstorm.testing.world import SimulatedWorld, TaskError
from kstorm.topology import (
    DEFAULT_STREAM,
    BasicBolt,
    Bolt,
    OutputFieldsDeclarer,
    Stateful,
    Topology,
    TopologyBuilder,
    TopologyContext,
)
from kstorm.topology.component import Wrapped

B = TypeVar("B", bound=Bolt | BasicBolt | Wrapped)
_BOLT = "bolt"
_CONSUMER = "consumer"


class BoltTester(Generic[B]):
    """Prepare a bolt as its only task. `fields` are the fields of its input from the component
    "source".

    For a bolt with several inputs, pass `inputs` instead: fields by component, or by (component,
    stream). `resources` is the value of `TopologyContext.resources`. `settings` are fields of
    `Config`. On direct streams, emit to the task of the component "consumer".
    """

    @checked()
    def __init__(
        self,
        bolt: B,
        *fields: Text | Iterable[str],
        inputs: Mapping[str | tuple[str, str], Iterable[str]] | None = None,
        resources: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.bolt = bolt
        """The object that was passed in, not a copy."""
        self._runs: Bolt | BasicBolt = bolt.executor() if isinstance(bolt, Wrapped) else bolt
        self.reset: list[Any] = []
        """Messages whose timeout was reset."""
        self._inputs = _Inputs(
            inputs or {"source": [name for field in fields for name in _names(field)]}
        )
        self._topology = _around(self._runs, self._inputs, settings)
        self._outbox = Outbox(self._topology)
        ids = Random("ids")
        self._next_id: NextId = lambda: ids.getrandbits(64) or 1
        self._world = SimulatedWorld(self._topology, Random(0), self._next_id, resources or {})
        self._close_runner = weakref.finalize(self, self._world.runner.close)
        self._messages: dict[Any, _Message] = {}
        self._by_root: dict[int, _Message] = {}
        self._emitted: defaultdict[str, list[tuple[list[Any], list[Any]]]] = defaultdict(list)
        self._now = 0.0
        self._stored: dict[bytes, bytes] = {}
        self._state = TaskState(
            self._stored.get,
            lambda start: [pair for pair in sorted(self._stored.items()) if pair[0] >= start],
        )
        self._checkpoints = 0
        self._on_error = self._world.on_error(_BOLT, self._topology.task_ids(_BOLT)[0])
        self._task = BoltTask(
            self._topology, _BOLT, 0, self._runs, self._outbox, self._next_id, self._on_error
        )
        self._world.values.watch_task(self._task, type(bolt).__name__)
        self._prepare()

    # Driving.

    @checked()
    def give(
        self,
        values: Sequence[Any],
        source: Text | tuple[str, str] | None = None,
        message_id: Any = None,
    ) -> Any:
        """Execute a tuple and return the id of its message.

        By default each tuple starts a new message, numbered from 0. Tuples given with the same
        `message_id` belong to one tree. `source` is a component or a (component, stream) pair. A
        bolt with one input does not need it. Raises `TopologyError` if `source` is not an input of
        the bolt or has other fields. Raises `TypeError` for values that cannot be serialized.
        """
        component, stream = self._inputs.key(source, values)
        columns = [[value] for value in values]
        frame = TupleFrame(
            VERSION,
            component,
            self._topology.task_ids(component)[0],
            stream,
            1,
            bytes(8),
            bytes(8),
            {},
            columns,
        )
        self._check(values, component, stream, frame)
        if message_id is None:
            message_id = next(
                number for number in count(len(self._messages)) if number not in self._messages
            )
        message = self._messages.get(message_id)
        if message is None:
            message = self._messages[message_id] = _Message(
                message_id, len(self._messages), self._next_id()
            )
            self._by_root[message.root] = message
        edge = self._next_id()
        message.open ^= edge
        frame.roots, frame.edges = pack_ids([message.root]), pack_ids([edge])
        self._run(self._task.receive(decode(TupleFrame, encode(frame))))
        return message_id

    def _check(self, values: Sequence[Any], component: str, stream: str, frame: TupleFrame) -> None:
        """Raise `TypeError` if the values cannot be sent, before any state changes."""
        try:
            encode(frame)
        except Exception as error:  # noqa: BLE001 - the encoder calls methods of the values
            fields = self._topology.component(component).streams[stream].fields
            try:
                Sendable(component, stream, fields, sys.maxsize).check(values)
            except UnsendableError as found:
                raise TypeError(str(found)) from None
            raise TypeError(str(error)) from None

    def tick(self) -> None:
        """Execute a tick tuple. Raises `TopologyError` if the bolt's settings request no ticks."""
        every = self._task.config.topology_tick_tuple_freq_secs
        if every is None:
            raise TopologyError(
                "the bolt gets no tick tuples: set topology_tick_tuple_freq_secs in "
                "get_component_configuration, or pass it to the BoltTester"
            )
        self._now += every
        self._run(self._task.tick(self._now))

    def checkpoint(self) -> None:
        """Store the changes of a stateful bolt, between its `pre_prepare` and its `pre_commit`.

        Raises `TopologyError` if the bolt has no state, and `TypeError` for a value that cannot be
        stored.
        """
        if not isinstance(self._runs, Stateful):
            raise TopologyError(
                f"a {type(self.bolt).__name__} has no checkpoints: make it a StatefulBolt"
            )
        self._checkpoints += 1
        self._world.wait(self._runs.pre_prepare(self._checkpoints))
        for key, value in self._state.take_changes():
            if value is None:
                self._stored.pop(key, None)
            else:
                self._stored[key] = value
        self._state.stored()
        self._world.wait(self._runs.pre_commit(self._checkpoints))
        self.settle()

    def settle(self) -> None:
        """Record what the bolt did outside `execute`, for example in a callback."""
        self._outbox.take_over()
        for record in self._outbox.drain_tuples():
            self._note_emits(decode(TupleFrame, record.value))
        for what in self._outbox.too_large:
            self._on_error(what.error(), "sending")
        self._outbox.too_large.clear()
        for record in self._outbox.drain_acks():
            self._note_acks(decode(AckFrame, record.value))

    def close(self) -> None:
        """Call the bolt's `cleanup`."""
        self._world.wait(self._runs.cleanup())
        self._close_runner()

    # What happened.

    @checked()
    def emitted(self, stream: Text = DEFAULT_STREAM) -> list[list[Any]]:
        """Return the values of every tuple emitted on a stream, as its consumer receives them."""
        return [values for values, _ in self._emits(stream)]

    @checked()
    def anchors(self, stream: Text = DEFAULT_STREAM) -> list[list[Any]]:
        """Return the messages that each tuple emitted on a stream is anchored to. Empty if
        unanchored."""
        return [messages for _, messages in self._emits(stream)]

    @property
    def errors(self) -> list[TaskError]:
        """Errors that the bolt reported or raised, except `FailedException`."""
        return list(self._world.errors)

    @property
    def acked(self) -> list[Any]:
        """Finished messages, in the order in which they were given."""
        return [
            message.id
            for message in self._messages.values()
            if not message.open and not message.failed
        ]

    @property
    def failed(self) -> list[Any]:
        """Messages that the bolt failed, by `fail` or by raising."""
        return [message.id for message in self._messages.values() if message.failed]

    @property
    def held(self) -> list[Any]:
        """Messages with a tuple that the bolt neither acked nor failed. They would time out."""
        return [
            message.id for message in self._messages.values() if message.open and not message.failed
        ]

    # Inside.

    def _prepare(self) -> None:
        context = TopologyContext(self._topology, _BOLT, 0, self._world.resources)
        bolt, config, wait = self._runs, self._task.config, self._world.wait
        if isinstance(bolt, BasicBolt):
            wait(bolt.prepare(config, context))
        else:
            wait(bolt.prepare(config, context, self._task.collector))
        if isinstance(bolt, Stateful):
            wait(bolt.init_state(self._state))
        self._run(self._task.tick(0.0))  # the first call only starts the tick clock

    def _run(self, steps: Steps) -> None:
        self._world.run(steps)
        self.settle()

    def _emits(self, stream: str) -> list[tuple[list[Any], list[Any]]]:
        if stream not in self._topology.component(_BOLT).streams:
            raise TopologyError(f"the bolt declares no stream {stream!r}")
        return self._emitted[stream]

    def _note_emits(self, frame: TupleFrame) -> None:
        """Record emitted tuples. The consumer acks them immediately."""
        rows = zip(*frame.columns, strict=True) if frame.columns else [()] * frame.count
        roots = unpack_ids(frame.roots) or (0,) * frame.count
        edges = unpack_ids(frame.edges) or (0,) * frame.count
        for position, (values, root, edge) in enumerate(zip(rows, roots, edges, strict=True)):
            pairs = {root: edge} | frame.more.get(position, {})
            messages = sorted(
                (self._by_root[root] for root in pairs if root), key=lambda message: message.number
            )
            for message in messages:
                message.open ^= pairs[message.root]
            self._emitted[frame.stream].append((list(values), [message.id for message in messages]))

    def _note_acks(self, frame: AckFrame) -> None:
        for root, val in unpack_pairs(frame.roots, frame.vals):
            self._by_root[root].open ^= val
        for root in unpack_ids(frame.failed):
            self._by_root[root].failed = True
        self.reset += [self._by_root[root].id for root in unpack_ids(frame.reset)]


class _Message:
    """A tuple tree. `open` is the XOR of its given, emitted and acked edges, as in an acker's
    ledger."""

    def __init__(self, id: Any, number: int, root: int) -> None:
        self.id, self.number, self.root = id, number, root
        self.open = 0
        self.failed = False


class _Inputs(dict[tuple[str, str], list[str]]):
    def __init__(self, inputs: Mapping[str | tuple[str, str], Iterable[str]]) -> None:
        for key, fields in inputs.items():
            self[(key, DEFAULT_STREAM) if isinstance(key, str) else key] = list(_names(fields))

    def key(self, source: str | tuple[str, str] | None, values: Sequence[Any]) -> tuple[str, str]:
        """Return the input named by `source`. Raises `TopologyError` if the values do not fit."""
        key = (
            next(iter(self))
            if source is None
            else (source, DEFAULT_STREAM)
            if isinstance(source, str)
            else source
        )
        if key not in self or (source is None and len(self) > 1):
            known = ", ".join(
                repr(name if stream == DEFAULT_STREAM else (name, stream)) for name, stream in self
            )
            raise TopologyError(
                f"a tuple was given from the source {source!r}, but the bolt's inputs are {known}"
            )
        if len(values) != len(self[key]):
            raise TopologyError(
                f"{len(values)} values were given for {len(self[key])} fields "
                f"({', '.join(self[key])})"
            )
        return key


def _around(bolt: Bolt | BasicBolt, inputs: _Inputs, settings: Mapping[str, Any]) -> Topology:
    """Build a topology with all inputs of a bolt and one consumer for all of its streams."""
    builder = TopologyBuilder("tested")
    streams: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for (component, stream), fields in inputs.items():
        streams[component][stream] = fields
    for component, declared in streams.items():
        builder.set_spout(component, FeederSpout(streams=declared))
    tested = builder.set_bolt(_BOLT, bolt).add_configurations(**settings)
    for component, stream in inputs:
        tested.shuffle_grouping(component, stream)
    emits = OutputFieldsDeclarer(_BOLT)
    bolt.declare_output_fields(emits)
    if emits.streams:
        consumer = builder.set_bolt(_CONSUMER, TupleCaptureBolt())
        for spec in emits.streams.values():
            subscribe = consumer.direct_grouping if spec.direct else consumer.shuffle_grouping
            subscribe(_BOLT, spec.id)
    return builder.build()


def _names(fields: str | Iterable[str]) -> list[str]:
    return [fields] if isinstance(fields, str) else list(fields)
