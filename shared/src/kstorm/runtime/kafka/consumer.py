"""Reads a component's input topic and owns its tasks: one librdkafka consumer on its own thread.

Each task is a partition, and the consumer group assigns tasks to the processes of a component. With
static membership, a process that returns under its instance name within the session timeout gets
its tasks back without a rebalance. With cooperative assignment, tasks that stay continue to run
while others move. docs/development/adr/0001 has the measurements behind this.

The thread never touches tasks. It passes whole polls to the event loop and runs the owner's
coroutines there: `assigned` before a task's first record, `revoked` after its last.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Protocol

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from kstorm.errors import FencedError, KstormError
from kstorm.kafka.cluster import Partition
from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.pod_scale import is_scaled_away
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.broker_loss import BrokerLossDetector
from kstorm.runtime.kafka.client_errors import raise_if_final
from kstorm.runtime.kafka.consumer_calls import ConsumerCallQueue
from kstorm.runtime.kafka.deadlines import DeadlineExecutor
from kstorm.runtime.kafka.group_member import member_config
from kstorm.runtime.kafka.open_transactions import OpenTransactions
from kstorm.runtime.kafka.start_offsets import committed_offsets
from kstorm.runtime.kafka.statistics import INTERVAL_MS, read_statistics
from kstorm.runtime.kafka.unassigned_tasks import UnassignedTaskDetector, query_of_unassigned
from kstorm.runtime.kafka.undecodable import UndecodableBatchProbe, UndecodableRange

# Wait this long for the current work to shrink before pausing, because a pause discards prefetched
# records.
_PATIENCE_SECONDS = 0.5
# A poll is executed as one unit. With many tasks its records are small, and one that has more of them
# costs less for each.
_POLL_BYTES = 256 * 1024
_POLL_RECORDS = 1000
_CONSUME_RECORDS = 100
_POLL_SECONDS = 0.05
_LEAVE_SECONDS = 2.0
_CLOSE_SECONDS = 5.0
_FENCED = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()


class TaskOwner(Protocol):
    """Runs the tasks. Every method is called on the event loop."""

    async def assigned(self, committed: Mapping[int, int]) -> None:
        """Prepare these tasks, which resume at these input offsets.

        Their records arrive after `ready` is called.
        """

    async def revoked(self, partitions: Sequence[int]) -> None:
        """Finish and release these tasks."""

    async def lost(self, partitions: Sequence[int]) -> None:
        """Drop these tasks without writing or committing: another process may already own them."""

    def deliver(self, records: list[Message]) -> None:
        """Process one poll's records."""

    def pass_over(self, partition: int, batch: UndecodableRange) -> None:
        """An undecodable batch was skipped."""


class TaskConsumer(threading.Thread):
    """Call `start` once, and at the end `stop`, which blocks."""

    def __init__(
        self,
        settings: Settings,
        *,
        topic: str,
        group: str,
        session_timeout_ms: int,
        revoke_secs: float,
        owner: TaskOwner,
        loop: asyncio.AbstractEventLoop,
        fatal: Callable[[Exception], None],
        log: Logger,
        full: Callable[[], bool] = lambda: False,
        gathering: Callable[[int, int], float] = lambda records, size: 0.0,
        reads: bool = True,
        from_committed: bool = False,
    ) -> None:
        """`revoke_secs` is the longest time that the owner takes to release tasks.

        `full` returns True while the owner does not want more records. `gathering` returns the
        seconds until the next poll, from the records and bytes of this one. Both are called on the
        consumer's thread. With `reads=False`, the consumer only takes part in the assignment of
        tasks, and another client reads the records. With `from_committed`, a task without a
        committed offset ends the process.
        """
        super().__init__(name="task-consumer", daemon=True)
        self._group, self._revoke_secs, self._from_committed = group, revoke_secs, from_committed
        self._settings, self._topic, self._owner = settings, topic, owner
        self._loop, self._fatal = loop, fatal
        self._log, self._reads, self._session_timeout_ms = log, reads, session_timeout_ms
        self._stopping = threading.Event()
        self._orders = ConsumerCallQueue()
        self.preparing: set[int] = set()
        """Assigned partitions whose tasks are not ready yet."""
        self.joined = False
        """True once this process has taken part in a completed rebalance, with or without tasks."""
        self._waits_until = float("inf")
        self._paused: set[int] = set()
        self._gathering, self._next_poll = gathering, 0.0
        self._full, self._leaves = full, settings.leave_on_stop
        self.throttled = False
        """True while reading is paused because too much input is being processed."""
        self._metadata: Any = None
        self.transactions = OpenTransactions(topic)
        """The open transactions that block this consumer."""
        self.assignment: set[int] = set()
        """Partitions assigned to this process."""
        config = {
            **member_config(settings, group, session_timeout_ms, revoke_secs),
            "statistics.interval.ms": INTERVAL_MS if reads else 0,
            "stats_cb": self._heard,
        }
        self._consumer = Consumer(config)
        self._searches = UndecodableBatchProbe(config)
        self._forgotten = BrokerLossDetector()
        self._ownerless = UnassignedTaskDetector(
            query_of_unassigned(settings, group, topic), revoke_secs
        )

    # Called on the event loop.

    @property
    def stands_by(self) -> bool:
        """True if this process has no task, and expects none: a session has passed since it joined."""
        return not self.assignment and time.monotonic() > self._waits_until

    def ready(self, partition: int) -> None:
        """Allow the delivery of a task's records."""
        self.preparing.discard(partition)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets without waiting. After a failure, records are only executed again."""
        if offsets:
            self._orders.give(lambda: self._commit(offsets, asynchronous=True))

    async def commit_and_wait(self, offsets: Mapping[int, int]) -> None:
        if offsets:
            done = self._orders.give(lambda: self._commit(offsets, asynchronous=False))
            await asyncio.wrap_future(done)

    async def group_metadata(self, *, anew: bool = False) -> Any:
        """Return this member's group metadata, for a transaction.

        It is cached until the next rebalance, because the consumer's thread responds only between
        two polls. If Kafka rejects the cached generation as outdated, call this with `anew`.
        """
        if anew or self._metadata is None:
            found = self._orders.give(self._consumer.consumer_group_metadata)
            self._metadata = await asyncio.wrap_future(found)
        return self._metadata

    def stop(self) -> None:
        """Revoke all tasks and wait for the thread. A process that will not come back leaves."""
        self._leaves = self._leaves or is_scaled_away(
            self._settings.instance, self._settings.stateful_set, self._log
        )
        self._stopping.set()
        if self.is_alive():
            self.join()

    # The thread.

    def run(self) -> None:
        try:
            self._join()
            while not self._stopping.is_set():
                self._orders.serve()
                self._turn()
                self._look_for_ownerless()
            if self._leaves:
                self._leave()
        except Exception as error:  # noqa: BLE001 - the process has to end, too
            self._fatal(error)
        finally:
            self._searches.close()
            self._ownerless.close()
            self._close()

    def _join(self) -> None:
        self.joined = False
        self._consumer.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=partial(self._release, lost=False),
            on_lost=partial(self._release, lost=True),
        )

    def _look_for_ownerless(self) -> None:
        if found := self._ownerless.look(time.monotonic(), has_tasks=bool(self.assignment)):
            self._log.warning(
                "joins_anew",
                why=f"the group {self._group!r} assigned tasks {sorted(found)} to no process",
            )
            self._leave()
            self._join()

    def _close(self) -> None:
        """Close the consumer, which releases the remaining tasks.

        Without a broker, librdkafka's `close` may never return. It is then abandoned.
        """
        caller = DeadlineExecutor("close")
        closing = caller.begin(self._consumer.close)
        caller.close()
        patience = time.monotonic() + _CLOSE_SECONDS
        while not wait([closing], _POLL_SECONDS).done:
            if self.assignment:
                patience = time.monotonic() + _CLOSE_SECONDS
            elif time.monotonic() > patience:
                self._log.warning("consumer_not_closed", seconds=_CLOSE_SECONDS)
                return
        if (error := closing.exception()) is not None:
            self._fatal(error if isinstance(error, Exception) else KstormError(repr(error)))

    def _leave(self) -> None:
        """Revoke all tasks and leave the group.

        A static member leaves when it unsubscribes, but not when it closes. The member id
        disappears when the group has been notified. `close` would wait for the response but drop
        unsent requests.
        """
        self._consumer.unsubscribe()
        self._poll_while(lambda: bool(self.assignment), self._revoke_secs)
        self._poll_while(lambda: bool(self._consumer.memberid()), _LEAVE_SECONDS)

    def _poll_while(self, condition: Callable[[], bool], seconds: float) -> None:
        """Poll without processing. The records stay uncommitted, and the next owner reads them."""
        deadline = time.monotonic() + seconds
        while condition() and time.monotonic() < deadline:
            self._orders.serve()
            self._consumer.poll(_POLL_SECONDS)

    def _turn(self) -> None:
        self._regulate()
        self._go_on_behind()
        self._forgotten.check(self._topic)
        self._stopping.wait(max(0.0, self._next_poll - time.monotonic()))
        first = self._consumer.poll(_POLL_SECONDS)
        if first is None:
            return
        good = [message for message in self._ready_after(first) if self._is_record(message)]
        if good:
            self._loop.call_soon_threadsafe(self._owner.deliver, good)
            wait = self._gathering(len(good), sum(map(len, good)))
            self._next_poll = time.monotonic() + wait

    def _ready_after(self, first: Message) -> list[Message]:
        """Return a poll: the first message and what librdkafka has fetched behind it."""
        polled, size = [first], len(first)
        while size < _POLL_BYTES and len(polled) < _POLL_RECORDS:
            more = self._consumer.consume(_CONSUME_RECORDS, 0)
            polled += more
            size += sum(map(len, more))
            if len(more) < _CONSUME_RECORDS:
                break
        return polled

    def _go_on_behind(self) -> None:
        """Report undecodable batches to the owner and continue after them."""
        for place, batch in self._searches.ended():
            try:
                self._consumer.seek(TopicPartition(*place, batch.end))
            except KafkaException as error:
                # The partition is not being read now. When it is, the error is returned again.
                self._log.warning(
                    "seek_refused", error=error.args[0].str(), partition=place.partition
                )
                self._searches.forget(place)
                continue
            self._loop.call_soon_threadsafe(self._owner.pass_over, place.partition, batch)

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        # librdkafka's code does not identify the error.
        if _FENCED in error.str():
            raise FencedError(
                f"another process runs as {self._settings.instance!r}, or a restarted broker "
                "mistakes this process for another one: this process exits, and may restart; give "
                "each process of a component its own KSTORM_INSTANCE"
            )
        raise_if_final(error, self._topic, self._group)
        if not self._searches.begin(message) and error.code() != KafkaError._PARTITION_EOF:
            self._log.warning("consumer_error", error=error.str())
        return False

    def _regulate(self) -> None:
        """Pause partitions that are not ready, or all of them if the owner is full."""
        if not self.throttled:
            patience = time.monotonic() + _PATIENCE_SECONDS
            while self._full() and time.monotonic() < patience:
                self._orders.serve()
                time.sleep(0.005)
        self.throttled = self._full()
        wanted = self.assignment & self.preparing
        if self.throttled or not self._reads:
            wanted = set(self.assignment)
        if pause := wanted - self._paused:
            self._consumer.pause(self._places(pause))
        if resume := (self._paused - wanted) & self.assignment:
            self._consumer.resume(self._places(resume))
        self._paused = wanted

    def _heard(self, told: str) -> None:
        statistics, read = read_statistics(told), self.assignment - self._paused
        self.transactions.heard(statistics, read)
        self._forgotten.heard(statistics)
        self._searches.heard(statistics, [Partition(self._topic, number) for number in read])

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._metadata = None
        committed = self._committed(consumer, places)
        partitions = list(committed)
        consumer.incremental_assign(
            [TopicPartition(self._topic, *place) for place in committed.items()]
        )
        if not self.joined:
            # Tasks move in two rounds. In the first one, members only revoke tasks.
            self._waits_until = time.monotonic() + self._session_timeout_ms / 1000
            self.joined = True
            self._ownerless.joined(time.monotonic())
        self.assignment.update(partitions)
        self.preparing.update(partitions)
        if partitions:
            self._log.info("tasks_assigned", partitions=sorted(partitions))
            self._regulate()
            taken = asyncio.run_coroutine_threadsafe(self._owner.assigned(committed), self._loop)
            taken.add_done_callback(self._end_if_failed)

    def _committed(self, consumer: Consumer, places: list[TopicPartition]) -> dict[int, int]:
        """Return the offsets where the tasks resume, by partition."""
        if not (places and self._reads):
            return {place.partition: OFFSET_END for place in places}
        return committed_offsets(
            consumer, places, self._group, self._settings, must_be_there=self._from_committed
        )

    def _end_if_failed(self, future: "Future[None]") -> None:
        error = future.exception()
        if isinstance(error, Exception):
            self._fatal(error)

    def _release(self, consumer: Consumer, places: list[TopicPartition], *, lost: bool) -> None:
        self._metadata = None
        partitions = [place.partition for place in places]
        if partitions:
            self._log.info("tasks_lost" if lost else "tasks_revoked", partitions=sorted(partitions))
            letting_go = self._owner.lost(partitions) if lost else self._owner.revoked(partitions)
            self._wait_for(asyncio.run_coroutine_threadsafe(letting_go, self._loop))
        self.assignment.difference_update(partitions)
        self.preparing.difference_update(partitions)
        self._paused.difference_update(partitions)
        for partition in partitions:
            self._searches.forget(Partition(self._topic, partition))
        consumer.incremental_unassign(places)

    def _wait_for(self, done: "Future[None]") -> None:
        """Wait for a coroutine of the event loop, and serve the calls that it queues meanwhile."""
        deadline = time.monotonic() + self._revoke_secs
        while not done.done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"tasks were not released within {self._revoke_secs:.0f} s")
            self._orders.serve()
            time.sleep(0.005)
        done.result()

    def _commit(self, offsets: Mapping[int, int], *, asynchronous: bool) -> None:
        positions = [TopicPartition(self._topic, *place) for place in offsets.items()]
        commit: Callable[..., object] = self._consumer.commit
        try:
            commit(offsets=positions, asynchronous=asynchronous)
        except KafkaException as error:
            self._log.warning("commit_refused", error=error.args[0].str(), offsets=offsets)

    def _places(self, partitions: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in partitions]
