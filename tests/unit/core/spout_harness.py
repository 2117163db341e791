"""Runs one spout task in isolation, with a scripted spout."""

from collections.abc import Callable
from itertools import count
from typing import Any

from kstorm.core.outbox import Outbox
from kstorm.core.spout_task import SpoutTask
from kstorm.core.user_code import Steps
from kstorm.core.wire import VERSION, AckFrame, CompletionFrame, decode, pack_ids, unpack_ids
from kstorm.topology import (
    Bolt,
    Config,
    OutputFieldsDeclarer,
    Spout,
    Topology,
    TopologyBuilder,
    TopologyContext,
)

T = 30.0


class Script(Spout):
    """Performs the test's steps, and records the acked and failed messages."""

    def __init__(self) -> None:
        self.todo: list[Callable[[], Any]] = []
        self.acked: list[Any] = []
        self.failed: list[Any] = []
        self.on_fail: Callable[[Any], Any] = lambda message_id: None
        self.on_ack: Callable[[Any], Any] = lambda message_id: None

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")
        declarer.declare_stream("unheard", "x", "y")
        declarer.declare_stream("to-one", "word", direct=True)

    def next_tuple(self) -> Any:
        return self.todo.pop(0)() if self.todo else None

    def ack(self, message_id: Any) -> Any:
        self.acked.append(message_id)
        return self.on_ack(message_id)

    def fail(self, message_id: Any) -> Any:
        self.failed.append(message_id)
        return self.on_fail(message_id)


class Harness:
    """Task 1 of two spout tasks.

    The bolt tasks 3 to 5 get the default stream twice, and the direct one.
    """

    def __init__(self, **settings: Any) -> None:
        builder = TopologyBuilder("t", Config(**settings))
        builder.set_spout("words", Script(), 2)
        builder.set_bolt("bolt", Bolt(), 2).shuffle_grouping("words").direct_grouping(
            "words", "to-one"
        )
        builder.set_bolt("sink", Bolt()).all_grouping("words")
        self.topology: Topology = builder.build()
        self.outbox = Outbox(self.topology)
        self.spout = Script()
        self.errors: list[tuple[str, str]] = []
        self.now = 0.0
        self.task = SpoutTask(
            self.topology,
            "words",
            0,
            self.spout,
            self.outbox,
            count(1).__next__,
            lambda error, doing: self.errors.append((str(error), doing)),
            self.now,
        )
        self.emit = self.task.collector.emit
        self.spout.open(
            self.task.config, TopologyContext(self.topology, "words", 0), self.task.collector
        )
        self.run(self.task.activate())

    def emitting(self, *args: Any, **how: Any) -> Callable[..., None]:
        """Returns a step of the script that emits and returns None."""

        def emit(*_: Any) -> None:
            self.emit(*args, **how)

        return emit

    def run(self, steps: Steps) -> None:
        """Runs plain methods without a single wait."""
        assert list(steps) == []

    def next_tuple(self, *todo: Callable[[], Any]) -> None:
        self.spout.todo += todo
        self.run(self.task.next_tuple(self.now))

    def send(self, message_id: Any = None, **how: Any) -> int:
        """Emits a tuple and returns the root of its tree, or 0 for an untracked tuple."""
        before = self.task.in_flight
        self.next_tuple(self.emitting(["apple"], message_id, **how))
        self.outbox.drain_tuples()
        for send in self.outbox.drain_acks():
            (root,) = unpack_ids(decode(AckFrame, send.value).init_roots)
            assert self.task.in_flight == before + 1
            return root
        return 0

    def told(self, acked: Any = (), failed: Any = (), reset: Any = ()) -> None:
        frame = CompletionFrame(VERSION, 0, pack_ids(acked), pack_ids(failed), pack_ids(reset))
        self.run(self.task.completed(frame, self.now))

    def pass_time(self, seconds: float, every: float = 1.0) -> None:
        """Ticks as a driver does."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + every)
            self.run(self.task.tick(self.now))
