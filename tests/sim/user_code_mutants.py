"""The rules that allow users' code to raise anywhere, and kstorm without each."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from kstorm.core import routing, spout_collector, task_collectors
from kstorm.core.bolt_task import BoltTask
from kstorm.core.emission import Emission
from kstorm.core.engine import BoltEngine, Engine, SpoutEngine
from kstorm.core.engine.effects import Effect, RunUserCode
from kstorm.core.engine.engine import UserCodeJob
from kstorm.core.lanes import Lane
from kstorm.core.spout_task import SpoutTask
from kstorm.core.user_code import Steps
from kstorm.kafka import emitting
from tests.sim.mutant import Mutant, orderly

# Groupings.


def _put_before_all_have_chosen() -> AbstractContextManager[object]:
    def together(
        choosers: list[Callable[[Sequence[Any]], Sequence[Lane]]],
    ) -> Callable[[Sequence[Any]], Any]:
        return lambda values: (lane for choose in choosers for lane in choose(values))

    return patch.object(routing, "_together", together)


class _HastyEmission(Emission):
    """Sends what the groupings chose before one of them raised."""

    def __init__(self, *chosen: Any) -> None:
        try:
            super().__init__(*chosen)
        except Exception:
            self.send()
            raise


@contextmanager
def _sent_before_all_have_chosen() -> Iterator[None]:
    with (
        patch.object(task_collectors, "Emission", _HastyEmission),
        patch.object(spout_collector, "Emission", _HastyEmission),
    ):
        yield


def _tuple_by_tuple() -> AbstractContextManager[object]:
    def emit(collector: Any, rows: Any, ids: Any, stream: str) -> None:
        for position, values in enumerate(rows):
            collector.emit(values, None if ids is None else ids[position], stream)

    return patch.object(emitting, "_emit_batch", emit)


# Components.


def _raised_is_acked() -> AbstractContextManager[object]:
    failed = BoltTask._failed

    def forgiving(self: BoltTask, tuple: Any, error: Exception) -> None:
        self.collector.ack(tuple)
        failed(self, tuple, error)

    return patch.object(BoltTask, "_failed", forgiving)


def _first_that_raises_is_the_last() -> AbstractContextManager[object]:
    def tell_acked(self: SpoutTask, message_ids: Sequence[Any]) -> Steps:
        try:
            for message_id in message_ids:
                self.acked += 1
                pending = self.spout.ack(message_id)
                if pending is not None:
                    yield pending
        except Exception as error:  # noqa: BLE001 - as in the method that it stands for
            self.on_error(error, "in ack")

    return patch.object(SpoutTask, "_tell_acked", tell_acked)


@contextmanager
def _ends_may_not_raise() -> Iterator[None]:
    def cleanup(self: BoltEngine, tenure: Any, unit: Any) -> Steps:
        yield from _called(tenure.task.bolt.cleanup)

    def close(self: SpoutEngine, task: Any) -> Steps:
        yield from _called(task.spout.close)

    with patch.object(BoltEngine, "_cleanup", cleanup), patch.object(SpoutEngine, "_close", close):
        yield


def _called(method: Callable[[], Any]) -> Steps:
    pending = method()
    if pending is not None:
        yield pending


# Jobs.


@contextmanager
def _jobs_side_by_side() -> Iterator[None]:
    jobs: dict[int, tuple[RunUserCode, UserCodeJob]] = {}

    def begin(self: Engine[Any]) -> bool:
        if not self._jobs:
            return False
        job = self._jobs.popleft()
        runs = [RunUserCode(steps) for steps in job.runs()]
        job.left = len(runs)
        jobs.update((id(run), (run, job)) for run in runs)
        self._effects += runs
        if not runs:
            job.on_end()
        return True

    def ran(self: Engine[Any], run: RunUserCode, now: float) -> list[Effect]:
        self.now = now
        _, job = jobs.pop(id(run))
        job.left -= 1
        if not job.left:
            job.on_end()
        return self._turn()

    with patch.object(Engine, "_begin_job", begin), patch.object(Engine, "ran", ran):
        yield


def user_code_mutants() -> list[Mutant]:
    return [
        Mutant(
            "emit: a tuple is sent only after every grouping has chosen its tasks",
            _put_before_all_have_chosen,
        ),
        Mutant(
            "emit: a batch is sent only after every grouping has chosen the tasks of all its tuples",
            _sent_before_all_have_chosen,
        ),
        Mutant("emit: a message's tuples are emitted all or not at all", _tuple_by_tuple),
        Mutant("bolt: a tuple fails if execute raises", _raised_is_acked),
        Mutant(
            "spout: the end of each tree is reported, even if ack raised for the previous tree",
            _first_that_raises_is_the_last,
        ),
        Mutant(
            "task: a leaving task is released, even if cleanup or close raises", _ends_may_not_raise
        ),
        Mutant("user code: one job of a process runs at a time", _jobs_side_by_side, orderly),
    ]
