"""Run the bolt tasks of a process. This is the driver of a `BoltEngine`."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

from kstorm.core.bolt_task import BoltTask
from kstorm.core.engine import BoltEngine, InputRecord, TaskTenure
from kstorm.core.engine.effects import ApplyToStore, Transact
from kstorm.core.exactly_once.unfinished import check_changelog_pair
from kstorm.core.ids import random_columns, random_ids
from kstorm.engine_factories import make_bolt_engine
from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.metrics import Sample
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.app import ChannelApp
from kstorm.runtime.service.component_metrics import component_samples, component_totals
from kstorm.runtime.service.driver import Driver
from kstorm.runtime.service.resources import Resources
from kstorm.runtime.service.task_totals import TaskTotals
from kstorm.runtime.service.times import shown_times, watermark_metrics
from kstorm.runtime.store.downgrade_check import read_unfinished, unfinished_error
from kstorm.runtime.store.stored_state import StoredState
from kstorm.runtime.store.tables import RecoveringTable
from kstorm.runtime.store.task_store import TaskStore
from kstorm.topology import Topology
from kstorm.topology.component import Component


class BoltDriver(Driver[BoltEngine]):
    """The bolt tasks of one process."""

    def __init__(self, settings: Settings, topology: Topology, component: str, log: Logger) -> None:
        super().__init__(settings, topology, component, log)
        self._resources = Resources(settings, self.fatal)
        self.engine = make_bolt_engine(
            topology,
            component,
            self.journal,
            next_id=random_ids(),
            next_ids=random_columns(),
            rows=self._rows,
            resources=self._resources.lent,
            refuse=self._refuse,
        )
        self.engine.on_dropped = self._dropped
        self.group = topology.group(component)
        self.from_committed = topology.config.exactly_once
        self._store: TaskStore | None = None
        self._was_exact = False
        self._totals = TaskTotals(self.engine.tenures, _counts)
        self.exposition.add_latency(
            "bolt_process_seconds", "Time from a frame's emit to its execution", self.latency
        )

    def use_app(self, app: ChannelApp) -> None:
        if self.engine.changelog:
            tasks = self.topology.component(self.component).num_tasks
            name = f"{self.component}-state"
            changelog = self.engine.changelog
            table = RecoveringTable(
                app, name, changelog, tasks, self.settings, self.log, check_changelog_pair
            )
            # A Deployment's pod always starts with an empty disk.
            kept = not self.settings.leave_on_stop
            self._store = TaskStore(table, changelog, self.log, keeps_disk=kept)
            if self.engine.stateful:
                self.stored = StoredState(self._store)

    async def before_join(self) -> None:
        # Without storage, check whether an earlier run was exactly-once and left a changelog.
        if self._store is not None:
            self._store.lend(await self.open_writer())
        else:
            self._was_exact = self._changelog in self.topics

    async def after_leave(self) -> None:
        if self._store is not None:
            self._store.end()
        await asyncio.to_thread(self._resources.close)

    async def open(self, task: int) -> Iterable[tuple[InputRecord, str]]:
        if self._store is not None:
            return await self._store.open(task)
        if self._was_exact:
            self._refuse(
                task, await asyncio.to_thread(read_unfinished, self._changelog, task, self.settings)
            )
        return ()

    def abandon(self, task: int) -> None:
        if self._store is not None:
            self._store.abandon(task)

    def close(self, task: int) -> None:
        if self._store is not None:
            self._store.close(task)

    async def transact(self, effect: Transact) -> Mapping[int, int]:
        assert self._store is not None
        return await self._store.transact(effect)

    def keep(self, effect: ApplyToStore) -> None:
        assert self._store is not None
        self._store.keep(effect)

    def after_runs(self) -> None:
        if sent := self.engine.executed:
            now = time.time()
            self.latency.add_all([max(0.0, now - at) for at in sent])
            sent.clear()

    def _rows(self) -> TaskStore:
        assert self._store is not None
        return self._store

    def _refuse(self, task: int, left: Mapping[bytes, bytes]) -> None:
        """End the process, because an exactly-once run left tuples that at-least-once processing
        would lose."""
        if left:
            self.fatal(
                unfinished_error(self.component, self.engine.topic, self._changelog, task, left)
            )

    @property
    def _changelog(self) -> str:
        return self.topology.state_topic(self.component)

    def components(self) -> Iterable[tuple[int, Component]]:
        return [(task.task_id, task.bolt) for task in self.engine.tasks]

    def _dropped(self, tenure: TaskTenure[BoltTask]) -> None:
        self._totals.keep(tenure.task)

    def by_task(self) -> Mapping[int, Mapping[str, int]]:
        return {
            task.task_id: {**_counts(task), "pending": task.unfinished}
            for task in self.engine.tasks
        }

    def samples(self) -> Iterable[Sample]:
        yield from super().samples()
        totals = self._totals.now()
        yield "bolt_emitted_total", "Tuples emitted", totals["emitted"], {}
        yield "bolt_executed_total", "Tuples executed", totals["executed"], {}
        yield "bolt_acked_total", "Tuples acked", totals["acked"], {}
        yield "bolt_failed_total", "Tuples failed", totals["failed"], {}
        if self._store is not None:
            yield from self._store.samples()
        open_tuples = sum(task.unfinished for task in self.engine.tasks)
        yield (
            "bolt_unfinished",
            "Tuples executed that the bolt neither acked nor failed",
            open_tuples,
            {},
        )
        yield from watermark_metrics(self.engine.time.of_tasks())
        yield from component_samples(self.components(), self.journal)

    def status(self) -> dict[str, Any]:
        totals = self._totals.now()
        pending = sum(task.unfinished for task in self.engine.tasks)
        counts = {
            name: totals[name] for name in ("emitted", "executed", "ticks", "acked", "failed")
        }
        own = component_totals(self.components(), self.journal)
        return {**super().status(), "kind": "bolt", **counts, "pending": pending, "own": own} | {
            "watermarks": shown_times(self.engine.time.of_tasks()),
            "recovered": self._store.restored() if self._store is not None else "",
        }


def _counts(task: BoltTask) -> dict[str, int]:
    done = task.collector
    return {
        "emitted": done.emitted,
        "executed": task.executed,
        "ticks": task.ticks,
        "acked": done.acked,
        "failed": done.failed,
    }
