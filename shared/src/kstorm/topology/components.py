"""The classes that users subclass: `Spout`, `Bolt`, `BasicBolt`, and the stateful bolts.

An instance given to the `TopologyBuilder` is a template. Every task runs its own deep copy, as
Storm's tasks run a deserialized one. Create objects that cannot be copied, such as a connection, in
`open` or `prepare`. Any method may be `async`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from kstorm.topology.batch import TupleBatch
from kstorm.topology.collectors import BasicOutputCollector, OutputCollector, SpoutOutputCollector
from kstorm.topology.component import Component, Maybe
from kstorm.topology.config import Config
from kstorm.topology.context import TopologyContext
from kstorm.topology.event_time import EventTime
from kstorm.topology.stateful import Stateful
from kstorm.topology.tuple import Tuple


class Spout(Component):
    """A source of tuples (Storm's `ISpout`)."""

    handles_unsendable: ClassVar[bool] = False
    """True if this spout handles the `UnsendableError` of an emit, as `KafkaSpout` does by writing
    the message's dead letter. Otherwise `emit` does not raise it: the error is reported, and `fail`
    is called with the message id. With exactly-once processing, a dead letter is written instead."""

    collector: SpoutOutputCollector
    context: TopologyContext
    config: Config

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> Maybe:
        """Called once before anything else. The default keeps its arguments as attributes."""
        self.config, self.context, self.collector = config, context, collector
        return None

    def close(self) -> Maybe:
        """Called when this process releases the task, but not when the process is killed."""
        return None

    def activate(self) -> Maybe:
        """Called when the spout starts emitting, and again after each `deactivate`."""
        return None

    def deactivate(self) -> Maybe:
        """Called when the spout stops emitting. `next_tuple` is not called until `activate`."""
        return None

    def next_tuple(self) -> Maybe:
        """Emit the next tuple, or return if no message is available. It should not block."""
        raise NotImplementedError(f"{type(self).__name__} does not define next_tuple")

    def event_time(self) -> EventTime | None:
        """Return where the time of its tuples is found. The spout's tasks then compute the watermark
        for all windowed bolts behind it.

        With the default None, the spout uses the time of the windowed bolts that subscribe to it,
        for these bolts only.
        """
        return None

    def ack(self, message_id: Any) -> Maybe:
        """Called when the tree of the tuple emitted with this id is complete."""
        return None

    def fail(self, message_id: Any) -> Maybe:
        """Called when the tree failed or timed out.

        The spout itself decides whether to emit the message again.
        """
        return None


class Bolt(Component):
    """Processes tuples, and calls `ack` or `fail` for each one (Storm's `IRichBolt`)."""

    collector: OutputCollector
    context: TopologyContext
    config: Config

    def prepare(
        self, config: Config, context: TopologyContext, collector: OutputCollector
    ) -> Maybe:
        """Called once before anything else. The default keeps its arguments as attributes."""
        self.config, self.context, self.collector = config, context, collector
        return None

    def execute(self, tuple: Tuple) -> Maybe:
        """Process one tuple.

        If it raises, the tuple fails, the error is reported and the task continues.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define execute")

    def execute_batch(self, batch: TupleBatch) -> Any:
        """Process the tuples of a frame together, for speed. Define `execute` too, because some
        tuples arrive singly.

        Ack the batch by `collector.ack_batch`, immediately or later. Emits, acks and fails of
        batches take effect when this method has returned. If it raises or returns `NotImplemented`,
        none of them takes effect, and `execute` is called for each tuple.
        """
        return NotImplemented

    def cleanup(self) -> Maybe:
        """Called when this process releases the task, but not when the process is killed."""
        return None


class BasicBolt(Component):
    """Anchors its emits to its input, and acks the input when `execute` returns (Storm's
    `IBasicBolt`).

    Raising `FailedException` fails the input without a report. Any other exception fails it and
    reports the error.
    """

    context: TopologyContext
    config: Config

    def prepare(self, config: Config, context: TopologyContext) -> Maybe:
        """Called once before anything else. The default keeps its arguments as attributes."""
        self.config, self.context = config, context
        return None

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> Maybe:
        """Process one tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define execute")

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> Any:
        """Process the tuples of a frame together, for speed. Define `execute` too, because some
        tuples arrive singly.

        Emit by `collector.emit_batch`. The batch is acked when this method returns. If it raises or
        returns `NotImplemented`, its emits are discarded, and `execute` is called for each tuple,
        so that only the bad ones fail. Changes of the bolt's own attributes are not undone, so
        check the input before you change them.
        """
        return NotImplemented

    def cleanup(self) -> Maybe:
        """Called when this process releases the task, but not when the process is killed."""
        return None


class StatefulBolt(Stateful, Bolt):
    """A `Bolt` with a `KeyValueState` (Storm's `IStatefulBolt`)."""


class StatefulBasicBolt(Stateful, BasicBolt):
    """A `BasicBolt` with a `KeyValueState`."""


class CustomStreamGrouping:
    """A user-defined grouping (Storm's interface of the same name)."""

    def prepare(
        self, context: TopologyContext, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None:
        """Called once per emitting task with the stream and the ids of the tasks to choose from."""

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        """Return the ids of the tasks, none or several, that receive `values` emitted by `task`."""
        raise NotImplementedError(f"{type(self).__name__} does not define choose_tasks")
