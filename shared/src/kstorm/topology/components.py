"""What users subclass: `Spout`, `Bolt`, `BasicBolt`, and the stateful bolts.

An instance given to the `TopologyBuilder` is a template: every task runs a deep copy of its own, as Storm's tasks run a
deserialised one. Whatever cannot be copied (a connection) is made in `open` or `prepare`. Any method may be `async`.
"""

from collections.abc import Sequence
from typing import Any

from kstorm.topology.batch import TupleBatch
from kstorm.topology.collectors import BasicOutputCollector, OutputCollector, SpoutOutputCollector
from kstorm.topology.component import Component, Maybe
from kstorm.topology.config import Config
from kstorm.topology.context import TopologyContext
from kstorm.topology.stateful import Stateful
from kstorm.topology.tuple import Tuple


class Spout(Component):
    """A source of tuples (Storm's `ISpout`)."""

    collector: SpoutOutputCollector
    context: TopologyContext
    config: Config

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> Maybe:
        """Called once before anything else; by default keeps its arguments as attributes."""
        self.config, self.context, self.collector = config, context, collector
        return None

    def close(self) -> Maybe:
        """Called when the task leaves this process in an orderly way; not when the process is killed."""
        return None

    def activate(self) -> Maybe:
        """Called when the spout starts to emit, and again after each `deactivate`."""
        return None

    def deactivate(self) -> Maybe:
        """Called when the spout stops to emit; `next_tuple` is not called until `activate`."""
        return None

    def next_tuple(self) -> Maybe:
        """Emits the next tuple, or returns without emitting if there is none; it should not wait."""
        raise NotImplementedError(f"{type(self).__name__} does not define next_tuple")

    def ack(self, message_id: Any) -> Maybe:
        """The tree of the tuple emitted with this id is complete."""
        return None

    def fail(self, message_id: Any) -> Maybe:
        """The tree failed or timed out. Emitting again is the spout's own decision."""
        return None


class Bolt(Component):
    """Processes tuples, and says for each that it is done: `ack` or `fail` (Storm's `IRichBolt`)."""

    collector: OutputCollector
    context: TopologyContext
    config: Config

    def prepare(
        self, config: Config, context: TopologyContext, collector: OutputCollector
    ) -> Maybe:
        """Called once before anything else; by default keeps its arguments as attributes."""
        self.config, self.context, self.collector = config, context, collector
        return None

    def execute(self, tuple: Tuple) -> Maybe:
        """Processes one tuple. If it raises, the tuple fails, the error is reported and the task goes on."""
        raise NotImplementedError(f"{type(self).__name__} does not define execute")

    def execute_batch(self, batch: TupleBatch) -> Any:
        """Processes the tuples of a frame at once, for speed; define `execute` too, since some tuples come one by one.

        Acks by `collector.ack_batch`, at once or later. Batches emitted, acked and failed take effect when it has
        returned: if it raises, nothing of them has happened, and `execute` is called for each tuple. The same if it
        returns `NotImplemented`.
        """
        return NotImplemented

    def cleanup(self) -> Maybe:
        """Called when the task leaves this process in an orderly way; not when the process is killed."""
        return None


class BasicBolt(Component):
    """Anchors what it emits to its input, and acks the input when `execute` returns (Storm's `IBasicBolt`).

    Raising `FailedException` fails the input quietly; any other exception fails it and reports the error.
    """

    context: TopologyContext
    config: Config

    def prepare(self, config: Config, context: TopologyContext) -> Maybe:
        """Called once before anything else; by default keeps its arguments as attributes."""
        self.config, self.context = config, context
        return None

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> Maybe:
        """Processes one tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define execute")

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> Any:
        """Processes the tuples of a frame at once, for speed; define `execute` too, since some tuples come one by one.

        Emits by `collector.emit_batch`; the batch is acked when this returns. If it raises, nothing of it was emitted,
        and `execute` is called for each tuple, so that only those fail that must; what it had put into the bolt's own
        state stays there, so check before you change. The same if it returns `NotImplemented`.
        """
        return NotImplemented

    def cleanup(self) -> Maybe:
        """Called when the task leaves this process in an orderly way."""
        return None


class StatefulBolt(Stateful, Bolt):
    """A `Bolt` with a `KeyValueState` (Storm's `IStatefulBolt`)."""


class StatefulBasicBolt(Stateful, BasicBolt):
    """A `BasicBolt` with a `KeyValueState`."""


class CustomStreamGrouping:
    """A grouping of the user's own (Storm's interface of the same name)."""

    def prepare(
        self, context: TopologyContext, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None:
        """Called once per emitting task with the stream and the ids of the tasks to choose from."""

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        """The ids of the tasks that shall have the tuple `values` emitted by `task`; may be none or several."""
        raise NotImplementedError(f"{type(self).__name__} does not define choose_tasks")
