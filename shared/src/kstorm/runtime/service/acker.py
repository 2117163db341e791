"""Run the acker tasks of a process. This is the driver of an `AckerEngine`."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from kstorm.core.engine import AckerEngine, InputRecord, TaskTenure
from kstorm.core.engine.effects import ApplyToStore, Transact
from kstorm.core.ledger import Ledger, check_bucket
from kstorm.engine_factories import make_acker_engine
from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.metrics import Sample
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import topic_id
from kstorm.runtime.service.app import ChannelApp
from kstorm.runtime.service.driver import Driver
from kstorm.runtime.service.task_totals import TaskTotals
from kstorm.runtime.store.tables import RecoveringTable
from kstorm.runtime.store.task_store import TaskStore
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT


class AckerDriver(Driver[AckerEngine]):
    """The acker tasks of one process."""

    def __init__(self, settings: Settings, topology: Topology, log: Logger) -> None:
        super().__init__(settings, topology, ACKER_COMPONENT, log)
        self.engine = make_acker_engine(
            topology,
            self.journal,
            rows=lambda: self._store,
            now=time.monotonic(),
            log_id=topic_id(topology.acker_topic, settings),
        )
        self.engine.on_dropped = self._dropped
        self.group = topology.group(ACKER_COMPONENT)
        self._store: TaskStore
        self._totals = TaskTotals(self.engine.tenures, _counts)

    def use_app(self, app: ChannelApp) -> None:
        tasks = self.topology.config.acker_tasks
        changelog = self.engine.changelog
        table = RecoveringTable(
            app, "ledger", changelog, tasks, self.settings, self.log, check_bucket
        )
        self._store = TaskStore(table, changelog, self.log)

    async def before_join(self) -> None:
        self._store.lend(await self.open_writer())

    async def after_leave(self) -> None:
        self._store.end()

    async def open(self, task: int) -> Iterable[tuple[InputRecord, str]]:
        return await self._store.open(task)

    def abandon(self, task: int) -> None:
        self._store.abandon(task)

    def close(self, task: int) -> None:
        self._store.close(task)

    async def transact(self, effect: Transact) -> Mapping[int, int]:
        return await self._store.transact(effect)

    def keep(self, effect: ApplyToStore) -> None:
        self._store.keep(effect)

    def _dropped(self, tenure: TaskTenure[Ledger]) -> None:
        self._totals.keep(tenure.task)

    def samples(self) -> Iterable[Sample]:
        yield from super().samples()
        totals = self._totals.now()
        yield "acker_trees_open", "Rows of the ledger", self.engine.open_trees, {}
        yield "acker_inits_total", "Trees started", totals["inits"], {}
        yield "acker_acks_total", "Acks applied, folded per frame", totals["acks"], {}
        yield "acker_completed_total", "Trees completed", totals["completed"], {}
        yield "acker_failed_total", "Trees failed by a bolt", totals["failed"], {}
        yield "acker_expired_total", "Rows dropped because they were too old", totals["expired"], {}
        yield (
            "acker_repeated_inits_total",
            "Repeated inits that were ignored",
            totals["repeated_inits"],
            {},
        )
        skipped = totals["skipped_records"]
        yield (
            "acker_replayed_updates_skipped_total",
            "Updates that a bucket already contained",
            skipped,
            {},
        )
        yield "acker_checkpoints_total", "Checkpoints taken", self.engine.checkpoints, {}
        yield from self._store.samples()

    def status(self) -> dict[str, Any]:
        totals = self._totals.now()
        counts = {
            "executed": totals["acks"] + totals["inits"],
            "acked": totals["completed"],
            "failed": totals["failed"],
        }
        emitted = totals["completed"] + totals["failed"]
        pending = self.engine.open_trees
        return {
            **super().status(),
            "kind": "acker",
            "emitted": emitted,
            **counts,
            "pending": pending,
        }


_COUNTERS = ("inits", "acks", "completed", "failed", "expired", "repeated_inits", "skipped_records")


def _counts(ledger: Ledger) -> dict[str, int]:
    return {name: getattr(ledger, name) for name in _COUNTERS}
