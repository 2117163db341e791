"""Run the spout tasks of a process. This is the driver of a `SpoutEngine`.

A separate consumer reads the completions, so a task that is being moved still receives them while
the group waits for it. A deactivated topology emits nothing, but in-flight tuples finish: see
`kstorm.runtime.zookeeper.topology_watch`.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import to_builtins

from kstorm.core.engine import InputRecord, SpoutEngine, TaskTenure
from kstorm.core.engine.effects import Transact
from kstorm.core.ids import random_columns, random_ids
from kstorm.core.spout_task import SpoutTask
from kstorm.engine_factories import make_spout_engine
from kstorm.kafka import KafkaSpout
from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.metrics import Sample
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.checkpoint_writer import CheckpointWriter
from kstorm.runtime.kafka.completions import CompletionsReader
from kstorm.runtime.kafka.open_transactions import OpenTransactions
from kstorm.runtime.kafka.same_cluster import check_same_cluster
from kstorm.runtime.service.component_metrics import component_samples, component_totals
from kstorm.runtime.service.driver import Driver
from kstorm.runtime.service.resources import Resources
from kstorm.runtime.service.task_totals import TaskTotals
from kstorm.runtime.service.times import shown_times, watermark_metrics
from kstorm.runtime.zookeeper.session import ZooKeeperSession
from kstorm.runtime.zookeeper.topology_nodes import SpoutReport
from kstorm.runtime.zookeeper.topology_watch import TopologyWatch
from kstorm.topology import Topology
from kstorm.topology.component import Component

_LOOK_SECS: Final = 0.016


class SpoutDriver(Driver[SpoutEngine]):
    """The spout tasks of one process."""

    reads = False

    def __init__(self, settings: Settings, topology: Topology, component: str, log: Logger) -> None:
        super().__init__(settings, topology, component, log)
        self._zookeeper = ZooKeeperSession(
            settings.zookeeper, settings.zookeeper_auth, tls=settings.zookeeper_tls
        )
        self._resources = Resources(settings, self.fatal, self._zookeeper)
        spout = topology.component(component).component
        if topology.config.exactly_once and isinstance(spout, KafkaSpout):
            check_same_cluster(component, spout.spout_config, settings)
        self.engine = make_spout_engine(
            topology,
            component,
            self.journal,
            next_id=random_ids(),
            next_ids=random_columns(),
            resources=self._resources.lent,
        )
        self._writer: CheckpointWriter | None = None
        self.engine.on_dropped = self._dropped
        self.engine.quiet = self._is_quiet
        self.group = topology.group(component)
        self._completions: CompletionsReader
        self._totals = TaskTotals(self.engine.tenures, _counts)
        self._watch = TopologyWatch(
            settings.zookeeper, settings.zookeeper_auth, topology.name, self._zookeeper
        )
        self._watch_problem = ""
        self.workload.watch(
            "pending_limit", lambda: any(task.throttled for task in self.engine.tasks)
        )
        self.exposition.add_latency(
            "spout_complete_latency_seconds",
            "Time from the emit to the ack of a tree",
            self.latency,
        )

    async def before_join(self) -> None:
        self._watch.start()
        topic = self.engine.topic
        self._completions = CompletionsReader(
            self.settings, topic, self._loop, self.deliver, self.pass_over, self.fatal
        )
        self._completions.start()
        self.background(self._look_for_messages())
        if self.topology.config.exactly_once:
            self._writer = await self.open_writer()

    async def after_leave(self) -> None:
        if self._writer is not None:
            self._writer.close()
        await asyncio.to_thread(self._completions.stop)
        await asyncio.to_thread(self._watch.close)
        await asyncio.to_thread(self._resources.close)
        await asyncio.to_thread(self._zookeeper.close)

    def _is_quiet(self) -> bool:
        return not self.engine.in_flight and all(
            isinstance(spout, KafkaSpout)
            and type(spout).next_tuple is KafkaSpout.next_tuple
            and spout.is_quiet
            for _, spout in self.components()
        )

    async def _look_for_messages(self) -> None:
        """End the long rests of quiet spouts when there is something to emit. A look costs a
        hundredth of the spouts' turn."""
        while not self._stopping:
            await asyncio.sleep(_LOOK_SECS)
            if self.engine.rest > _LOOK_SECS and self.engine.active and self._resources.fetch():
                self.idle.wake()
                self.perform_event(self.engine.emit)

    async def open(self, task: int) -> Iterable[tuple[InputRecord, str]]:
        await self._completions.add(task)
        return ()

    async def transact(self, effect: Transact) -> Mapping[int, int]:
        assert self._writer is not None
        return await self._writer.write("", effect)

    def close(self, task: int) -> None:
        self.background(self._completions.remove(task))

    def after_runs(self) -> None:
        for task in self.engine.tasks:
            if task.latencies:
                self.latency.add_all(task.latencies)
                task.latencies.clear()

    def periodic(self) -> None:
        self.engine.active = self._watch.active
        # Write to ZooKeeper whether emitting has stopped and how much is in flight, because
        # operators' commands wait for this.
        active = self.engine.emits if self.engine.tenures else self._watch.active
        self._watch.tell(
            SpoutReport(
                component=self.component,
                instance=self.settings.instance,
                active=active,
                pending=self.engine.in_flight,
                waiting=0
                if active
                else int(component_totals(self.components(), self.journal).get("retries", 0)),
                message_timeout_secs=self.engine.config.topology_message_timeout_secs,
            )
        )
        remark, problem = self._watch.remark, self._watch.problem
        if remark != self.remark:
            self.remark = remark
            self.log.info("control", says=remark or "active")
        if problem != self._watch_problem:
            self._watch_problem = problem
            self.log.warning("control", says=problem or "ZooKeeper responds again")

    @property
    def not_ready(self) -> str:
        # The process is also not ready while anyone may write the control node.
        return super().not_ready or self._watch.not_ready

    def open_transactions(self) -> list[OpenTransactions]:
        return [*super().open_transactions(), *self._resources.open_transactions()]

    def components(self) -> Iterable[tuple[int, Component]]:
        return [(task.task_id, task.spout) for task in self.engine.tasks]

    def _dropped(self, tenure: TaskTenure[SpoutTask]) -> None:
        self._totals.keep(tenure.task)

    def by_task(self) -> Mapping[int, Mapping[str, int]]:
        return {
            task.task_id: {**_counts(task), "pending": task.in_flight} for task in self.engine.tasks
        }

    def samples(self) -> Iterable[Sample]:
        yield from super().samples()
        totals = self._totals.now()
        timed_out = totals["timed_out"]
        yield "spout_emitted_total", "Tuples emitted", totals["emitted"], {}
        yield "spout_acked_total", "Trees completed", totals["acked"], {}
        yield "spout_failed_total", "Trees failed", timed_out, {"reason": "timeout"}
        yield (
            "spout_failed_total",
            "Trees failed",
            totals["failed"] - timed_out,
            {"reason": "explicit"},
        )
        yield (
            "spout_unknown_completions_total",
            "Completions of trees that no task was waiting for",
            totals["unknown"],
            {},
        )
        yield "spout_pending", "Trees in flight", self.engine.in_flight, {}
        throttled = sum(task.throttled for task in self.engine.tasks)
        yield "spout_throttled", "Tasks held back by topology_max_spout_pending", throttled, {}
        for topic, number, age in self._oldest_unfinished():
            yield (
                "spout_oldest_unfinished_seconds",
                "Age of the oldest unfinished message of a partition",
                age,
                {"topic": topic, "partition": number},
            )
        yield from watermark_metrics(self.engine.time.of_tasks())
        yield from component_samples(self.components(), self.journal)

    def status(self) -> dict[str, Any]:
        totals = self._totals.now()
        return {
            **super().status(),
            "kind": "spout",
            **{
                name: totals[name]
                for name in ("emitted", "acked", "failed", "timed_out", "unknown")
            },
            "executed": 0,
            "pending": self.engine.in_flight,
            "throttled": sum(task.throttled for task in self.engine.tasks),
            "source": component_totals(self.components(), self.journal),
            "active": self._watch.active,
            "remark": self.remark,
            "deactivated_since": self._watch.deactivated_at,
            "control_problem": self._watch.problem,
            "unread": self._unread(),
            "failing": [
                to_builtins(failure)
                for spout in self._kafka_spouts
                for failure in spout.partitions.failing()
            ],
            "watermarks": shown_times(self.engine.time.of_tasks()),
        }

    def _oldest_unfinished(self) -> Iterable[tuple[str, str, float]]:
        for spout in self._kafka_spouts:
            for place, age in spout.partitions.oldest_unfinished_seconds(
                time.time() * 1000
            ).items():
                yield place.topic, str(place.partition), age

    def _unread(self) -> str:
        return "; ".join(
            dict.fromkeys(filter(None, (spout.unread for spout in self._kafka_spouts)))
        )

    @property
    def _kafka_spouts(self) -> list[KafkaSpout]:
        return [spout for _, spout in self.components() if isinstance(spout, KafkaSpout)]


def _counts(task: SpoutTask) -> dict[str, int]:
    return {
        "emitted": task.collector.emitted,
        "acked": task.acked,
        "failed": task.failed,
        "timed_out": task.timed_out,
        "unknown": task.unknown,
    }
