"""The rules of event time, each with a way to switch it off."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from math import inf
from typing import Any
from unittest.mock import patch

from kstorm.core import watermarks as core
from kstorm.core.engine.checkpoints import Checkpoints
from kstorm.core.engine.epochs import Epochs
from kstorm.core.engine.exact_spout import SpoutEpochs
from kstorm.core.exactly_once.unfinished import UnfinishedTuples
from kstorm.core.watermarks import MarkSender
from kstorm.kafka import spout_watermark as kafka
from kstorm.kafka.partition_times import PartitionTimes
from kstorm.kafka.spout_watermark import SpoutWatermark
from kstorm.topology.event_time import NEVER, Mark
from kstorm.windows import watermark as windows
from kstorm.windows.sessions import SessionAggregateManager
from tests.sim.event_time import explore_chain, explore_event_time
from tests.sim.mutant import Mutant

Off = Callable[[], AbstractContextManager[object]]
_IDLE = Mark(NEVER, idle=True)


def _highest(marks: Iterable[Mark]) -> Mark:
    return max(marks, default=_IDLE)


def _without_a_rest(marks: Iterable[Mark]) -> Mark:
    """Idle ones count for nothing, even if all are."""
    active = [mark.at for mark in marks if not mark.idle]
    return Mark(min(active)) if active else _IDLE


def _each(name: str, value: Any, *modules: Any) -> Off:
    @contextmanager
    def off() -> Iterator[None]:
        with ExitStack() as stack:
            for module in modules:
                stack.enter_context(patch.object(module, name, value))
            yield

    return off


def _everything_emitted_counts() -> AbstractContextManager[object]:
    begin = SpoutWatermark.__init__

    def hasty(self: SpoutWatermark, *args: Any, repeats: bool) -> None:
        begin(self, *args, repeats=False)

    return patch.object(SpoutWatermark, "__init__", hasty)


def _unfinished_tuples_do_not_count() -> AbstractContextManager[object]:
    return patch.object(UnfinishedTuples, "first_offset", lambda self, exact: None)


def _ahead_of_the_tuples() -> AbstractContextManager[object]:
    drain = Epochs._drain

    def hasty(self: Epochs[Any]) -> None:
        self._drain_marks()
        drain(self)

    return patch.object(Epochs, "_drain", hasty)


def _ahead_of_the_checkpoint() -> AbstractContextManager[object]:
    flush = Checkpoints.flush

    def hasty(self: Checkpoints, unit: Any) -> None:
        flush(self, unit)
        self.send(unit, self._engine.time.frames())

    return patch.object(Checkpoints, "flush", hasty)


def _to_one_task() -> AbstractContextManager[object]:
    begin = MarkSender.__init__

    def sparing(self: MarkSender, *args: Any) -> None:
        begin(self, *args)
        self._places = [place for place in self._places if place[1] == 0]

    return patch.object(MarkSender, "__init__", sparing)


def _idle_by_the_clock_alone() -> AbstractContextManager[object]:
    look = core.Idleness.look
    return patch.object(core.Idleness, "look", lambda self, now, empty: look(self, now, True))


def _nothing_stored() -> AbstractContextManager[object]:
    begin = PartitionTimes.__init__

    def forgetful(self: PartitionTimes, latest: Any, reached: int | None = None) -> None:
        begin(self, latest)

    return patch.object(PartitionTimes, "__init__", forgetful)


def mutants() -> list[Mutant]:
    """Return the rules, in plain words."""
    rules: list[tuple[str, Off]] = [
        ("a spout waits for its slowest partition", _each("lowest", _highest, kafka)),
        ("a bolt waits for the slowest of all tasks", _each("lowest", _highest, core, windows)),
        (
            "bolts wait for a task that has not sent a watermark",
            _each("UNKNOWN", _IDLE, core, windows),
        ),
        ("spouts wait for a partition that has not begun", _each("UNKNOWN", _IDLE, kafka)),
        (
            "at least once, the watermark is below tuples that may be emitted again",
            _everything_emitted_counts,
        ),
        (
            "exactly once, the watermark waits for held and retried tuples",
            _unfinished_tuples_do_not_count,
        ),
        ("the watermark is sent after the tuples", _ahead_of_the_tuples),
        (
            "after sessions, the watermark is earlier by the gap",
            lambda: patch.object(SessionAggregateManager, "passed", lambda self, time: time),
        ),
        ("the watermark is sent to all tasks", _to_one_task),
        (
            "exactly once, a process without partitions reports that it is idle",
            lambda: patch.object(SpoutEpochs, "_empty_tasks", lambda self: {}),
        ),
        ("the time before an offset is stored with it", _nothing_stored),
        ("only a partition that was read to its end is idle", _idle_by_the_clock_alone),
        ("idle time counts in small steps", _each("_LONGEST_STEP", inf, core)),
        (
            "if all partitions are idle, the latest watermark applies",
            _each("lowest", _without_a_rest, core, kafka, windows),
        ),
    ]
    return [
        *(Mutant(f"event time: {rule}", off, explore_event_time, 1500) for rule, off in rules),
        Mutant(
            "event time: a windowed bolt sends the watermark after the checkpoint",
            _ahead_of_the_checkpoint,
            explore_chain,
            300,
        ),
    ]
