"""One bolt, driven by hand: give it tuples, and see what it emitted, what hangs on what, and which messages are done.

    split = BoltTester(SplitSentence(), "sentence")
    message = split.give(["the cow"])
    assert split.emitted() == [["the"], ["cow"]]
    assert split.acked == [message]

It is the bolt task that the services run, on one topology of one bolt. What the bolt emits goes to a consumer that acks
it at once, so that a message is done as soon as the bolt has acked all tuples of it.
"""

import weakref
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, Generic, TypeVar

from kstorm.core.bolt_task import BoltTask
from kstorm.core.ids import NextId
from kstorm.core.outbox import Outbox
from kstorm.core.state import TaskState
from kstorm.core.tasks import Steps
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
from kstorm.errors import TopologyError
from kstorm.testing.capture import TupleCaptureBolt
from kstorm.testing.spouts import FeederSpout
from kstorm.testing.world import TaskError, World
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
    """Prepares a bolt, as task 0 of one. `fields` are those of its input from the component "source".

    A bolt of several inputs has `inputs` instead: fields by component, or by (component, stream). `resources` is what
    `TopologyContext.resources` gives; `settings` are fields of `Config`. Emits to the task of the component "consumer" on
    direct streams.
    """

    def __init__(
        self,
        bolt: B,
        *fields: str | Iterable[str],
        inputs: Mapping[str | tuple[str, str], Iterable[str]] | None = None,
        resources: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.bolt = bolt
        """The very object that was given."""
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
        self._world = World(self._topology, Random(0), self._next_id, resources or {})
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
        self._prepare()

    # Driving.

    def give(
        self,
        values: Sequence[Any],
        source: str | tuple[str, str] | None = None,
        message_id: Any = None,
    ) -> Any:
        """Lets the bolt execute a tuple, and returns the id of the message that it belongs to.

        That is a message of its own, numbered from 0, unless `message_id` says otherwise: tuples given with one id are of
        one tree. `source` is the component that it comes from, or (component, stream); a bolt of one input needs none.
        Raises `TopologyError` if that is no input of the bolt, or has other fields, and `TypeError` on values that cannot travel.
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
        encode(frame)  # before anything is noted
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

    def tick(self) -> None:
        """Lets the bolt execute a tick tuple. Raises `TopologyError` if it gets none by its settings."""
        every = self._task.config.topology_tick_tuple_freq_secs
        if every is None:
            raise TopologyError(
                "the bolt gets no tick tuples: let get_component_configuration set topology_tick_tuple_freq_secs, or "
                "give it to the BoltTester"
            )
        self._now += every
        self._run(self._task.tick(self._now))

    def checkpoint(self) -> None:
        """Stores a stateful bolt's changes, between its `pre_prepare` and its `pre_commit`.

        Raises `TopologyError` if the bolt has no state, and `TypeError` on a value that cannot be stored.
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
        """Takes note of what the bolt did outside of `execute`, in a callback say."""
        for record in self._outbox.drain_tuples():
            self._note_emits(decode(TupleFrame, record.value))
        for what in self._outbox.too_large:
            self._on_error(what.error(), "sending")
        self._outbox.too_large.clear()
        for record in self._outbox.drain_acks():
            self._note_acks(decode(AckFrame, record.value))

    def close(self) -> None:
        """Calls `cleanup`."""
        self._world.wait(self._runs.cleanup())
        self._close_runner()

    # What happened.

    def emitted(self, stream: str = DEFAULT_STREAM) -> list[list[Any]]:
        """The values of every tuple emitted on a stream, as its consumer gets them."""
        return [values for values, _ in self._emits(stream)]

    def anchors(self, stream: str = DEFAULT_STREAM) -> list[list[Any]]:
        """For every tuple emitted on a stream the messages that it hangs on; none if it is unanchored."""
        return [messages for _, messages in self._emits(stream)]

    @property
    def errors(self) -> list[TaskError]:
        """What the bolt raised, but for `FailedException`, and what it reported."""
        return list(self._world.errors)

    @property
    def acked(self) -> list[Any]:
        """Messages that are done, in the order in which they were given."""
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
        """Messages of which the bolt has a tuple that it neither acked nor failed: they would time out."""
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
        self._run(self._task.tick(0.0))  # the first call only starts the clock of the ticks

    def _run(self, steps: Steps) -> None:
        self._world.run(steps)
        self.settle()

    def _emits(self, stream: str) -> list[tuple[list[Any], list[Any]]]:
        if stream not in self._topology.component(_BOLT).streams:
            raise TopologyError(f"the bolt declares no stream {stream!r}")
        return self._emitted[stream]

    def _note_emits(self, frame: TupleFrame) -> None:
        """The consumer acks at once."""
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
    """A tree: what is open of it is the XOR of all edges given and emitted and not acked, as in an acker's ledger."""

    def __init__(self, id: Any, number: int, root: int) -> None:
        self.id, self.number, self.root = id, number, root
        self.open = 0
        self.failed = False


class _Inputs(dict[tuple[str, str], list[str]]):
    """Fields by component and stream."""

    def __init__(self, inputs: Mapping[str | tuple[str, str], Iterable[str]]) -> None:
        for key, fields in inputs.items():
            self[(key, DEFAULT_STREAM) if isinstance(key, str) else key] = list(_names(fields))

    def key(self, source: str | tuple[str, str] | None, values: Sequence[Any]) -> tuple[str, str]:
        """The input that is meant, if these values fit it."""
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
                f"a tuple given from the source {source!r}: the bolt's inputs are {known}"
            )
        if len(values) != len(self[key]):
            raise TopologyError(
                f"{len(values)} values given for {len(self[key])} fields ({', '.join(self[key])})"
            )
        return key


def _around(bolt: Bolt | BasicBolt, inputs: _Inputs, settings: Mapping[str, Any]) -> Topology:
    """A topology that has all inputs of a bolt, and a consumer of all its streams."""
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
