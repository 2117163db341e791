"""Reads a component's input topic and owns its tasks: one librdkafka consumer on a thread of its own.

Task = partition, and the consumer group spreads the tasks over the processes of a component. Static membership: a process
that comes back under its instance name within the session timeout gets its tasks back with no rebalance of the others.
Cooperative assignment: tasks that stay go on while others move. docs/adr/0001 has the measurements behind this.

The thread never touches tasks; it hands whole polls to the event loop and runs the owner's coroutines there:
`assigned` before the first record of a task, `revoked` after the last.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
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
from kstorm.runtime.kafka.beginnings import committed_offsets
from kstorm.runtime.kafka.errors import raise_if_final
from kstorm.runtime.kafka.fetching import OWN_TOPICS
from kstorm.runtime.kafka.forgotten import Forgotten
from kstorm.runtime.kafka.in_time import Caller
from kstorm.runtime.kafka.open_transactions import OpenTransactions
from kstorm.runtime.kafka.orders import Orders
from kstorm.runtime.kafka.ownerless import Ownerless, asking
from kstorm.runtime.kafka.releases import member_id
from kstorm.runtime.kafka.statistics import INTERVAL_MS, read_statistics
from kstorm.runtime.kafka.undecodable import Searches, Undecodable
from kstorm.runtime.service.log import Logger
from kstorm.runtime.service.scale import is_scaled_away
from kstorm.runtime.service.settings import Settings

_HIGH_RECORDS, _LOW_RECORDS = 400, 100
_HIGH_BYTES, _LOW_BYTES = 48 << 20, 12 << 20
_PATIENCE_SECONDS = (
    0.5  # to wait for the work to shrink before pausing, which throws away what was fetched ahead
)
_POLL_RECORDS = 100
_POLL_SECONDS = 0.05
_LEAVE_SECONDS = 2.0
_CLOSE_SECONDS = 5.0
_MOST_POLL_INTERVAL_MS = 86_400_000  # librdkafka's bound
_POLL_MARGIN_SECONDS = 30.0
_FENCED = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()


class TaskOwner(Protocol):
    """Who runs the tasks. Every method is called on the event loop."""

    async def assigned(self, committed: Mapping[int, int]) -> None:
        """Make these tasks ready, whose input goes on at these offsets; their records come once `ready` was called."""
        ...

    async def revoked(self, partitions: Sequence[int]) -> None:
        """Finish and let go of these tasks."""
        ...

    async def lost(self, partitions: Sequence[int]) -> None:
        """Another process may have these tasks already: nothing of them may be written or committed."""
        ...

    def deliver(self, records: list[Message]) -> None:
        """Take one poll's records."""
        ...

    def pass_over(self, partition: int, batch: Undecodable) -> None:
        """A batch that cannot be read comes in place of its records."""
        ...


class TaskConsumer(threading.Thread):
    """Call `start` once, `took`/`finished` for each record, and `stop` (from a thread that may wait)."""

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
        reads: bool = True,
        from_committed: bool = False,
    ) -> None:
        """`revoke_secs`: the longest that the owner may take to let go of tasks. `reads=False`: only take part in the spreading
        of tasks; the records are read by somebody else. `from_committed`: a task without a committed offset ends the process."""
        super().__init__(name="task-consumer", daemon=True)
        self._group, self._revoke_secs, self._from_committed = group, revoke_secs, from_committed
        self._settings, self._topic, self._owner, self._loop, self._fatal = (
            settings,
            topic,
            owner,
            loop,
            fatal,
        )
        self._log, self._reads, self._session_timeout_ms = log, reads, session_timeout_ms
        self._stopping = threading.Event()
        self._leaves = settings.leave_on_stop
        self._orders = Orders()
        self.preparing: set[int] = set()
        """Partitions assigned whose tasks are not ready yet."""
        self.joined = False
        """Whether the group has spread its tasks with this process in it, be it that none came here."""
        self._waits_until = float("inf")
        self._paused: set[int] = set()
        self._throttled = False
        self._in_flight = self._in_flight_bytes = 0
        self._metadata: Any = None
        self.transactions = OpenTransactions(topic)
        """Those that this consumer waits for."""
        self.assignment: set[int] = set()
        """Partitions that are this process's now."""
        config: dict[str, Any] = {
            **settings.client_config,
            "isolation.level": "read_committed",  # so the committed offsets are stable ones: none of an open transaction
            "client.id": member_id(settings),
            "group.id": group,
            "group.instance.id": f"{group}-{settings.instance}",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_timeout_ms,
            "max.poll.interval.ms": _most_ms_without_poll(revoke_secs, session_timeout_ms),
            "heartbeat.interval.ms": min(
                500, session_timeout_ms // 5
            ),  # how soon a member hears of a rebalance
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "queued.max.messages.kbytes": 16 * 1024,
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 20,  # librdkafka's 1000 leaves the processor idle whenever its queue was full
            "fetch.message.max.bytes": 4 << 20,
            **OWN_TOPICS,
            "topic.metadata.refresh.interval.ms": 30_000,
            "statistics.interval.ms": INTERVAL_MS if reads else 0,
            "stats_cb": self._heard,
        }
        self._consumer = Consumer(config)
        self._searches = Searches(config)
        self._forgotten = Forgotten()
        self._ownerless = Ownerless(asking(settings, group, topic), revoke_secs)

    # Called on the event loop.

    def took(self, records: int, size: int) -> None:
        """So many records are being worked on."""
        self._in_flight += records
        self._in_flight_bytes += size

    def finished(self, records: int, size: int) -> None:
        """So many are done with, or were skipped."""
        self._in_flight -= records
        self._in_flight_bytes -= size

    @property
    def throttled(self) -> bool:
        """Whether reading is paused because too much is in flight."""
        return self._throttled

    @property
    def stands_by(self) -> bool:
        """Whether it has no task and, a session after it joined, need not expect one."""
        return not self.assignment and time.monotonic() > self._waits_until

    def ready(self, partition: int) -> None:
        """A task is ready: its records may come."""
        self.preparing.discard(partition)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commits offsets without waiting; a refusal is logged: the records are executed again, no more."""
        if offsets:
            self._orders.give(lambda: self._commit(offsets, asynchronous=True))

    async def commit_and_wait(self, offsets: Mapping[int, int]) -> None:
        """Commits offsets and waits for the broker."""
        if offsets:
            await asyncio.wrap_future(
                self._orders.give(lambda: self._commit(offsets, asynchronous=False))
            )

    async def group_metadata(self, *, anew: bool = False) -> Any:
        """Who this process is in the group, for a transaction. It is remembered until the next rebalance, as the consumer's thread
        answers only between two polls. A generation that has passed meanwhile is refused; then ask `anew`."""
        if anew or self._metadata is None:
            self._metadata = await asyncio.wrap_future(
                self._orders.give(self._consumer.consumer_group_metadata)
            )
        return self._metadata

    def stop(self) -> None:
        """Revokes every task and goes; waits for the end of the thread. The group is told if it is known that this process does
        not come back."""
        self._leaves = self._leaves or is_scaled_away(
            self._settings.instance, self._settings.stateful_set, self._log
        )
        self._stopping.set()
        if self.is_alive():
            self.join()

    # The thread.

    def run(self) -> None:
        """Polls until `stop`."""
        try:
            self._join()
            while not self._stopping.is_set():
                self._orders.serve()
                self._turn()
                self._look_for_ownerless()
            if self._leaves:
                self._leave()
        except FencedError as error:
            self._fatal(error)
        except Exception as error:  # noqa: BLE001 - the thread must not die silently: the process has to end
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
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def _look_for_ownerless(self) -> None:
        if found := self._ownerless.look(time.monotonic(), has_tasks=bool(self.assignment)):
            self._log.warning(
                "joins_anew", why=f"the group {self._group!r} gave tasks {sorted(found)} to nobody"
            )
            self._leave()
            self._join()

    def _close(self) -> None:
        """Tasks that are still here are let go of in this. With no broker to answer, librdkafka's `close` may never return after
        that: what it would still tell the group is nothing that anybody needs."""
        caller = Caller("close")
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
        """Revokes every task and tells the group, which a static member does when it unsubscribes, but not when it closes.

        The member id goes when the group is told. `close` waits for the answer, yet forgets what was not sent.
        """
        self._consumer.unsubscribe()
        self._poll_while(lambda: bool(self.assignment), self._revoke_secs)
        self._poll_while(lambda: bool(self._consumer.memberid()), _LEAVE_SECONDS)

    def _poll_while(self, condition: Callable[[], bool], seconds: float) -> None:
        """What is read meanwhile stays uncommitted, for the next owner."""
        deadline = time.monotonic() + seconds
        while condition() and time.monotonic() < deadline:
            self._orders.serve()
            self._consumer.poll(_POLL_SECONDS)

    def _turn(self) -> None:
        self._regulate()
        self._go_on_behind()
        self._forgotten.check(self._topic)
        first = self._consumer.poll(_POLL_SECONDS)
        if first is None:
            return
        polled = [first, *self._consumer.consume(_POLL_RECORDS, 0)]
        good = [message for message in polled if self._is_record(message)]
        if good:
            self._loop.call_soon_threadsafe(self._owner.deliver, good)

    def _go_on_behind(self) -> None:
        """Of what stays undecodable the owner is told, and the records behind it are read."""
        for place, batch in self._searches.ended():
            try:
                self._consumer.seek(TopicPartition(*place, batch.end))
            except (
                KafkaException
            ) as error:  # it is not being read at the moment; when it is, the fault comes again
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
        if _FENCED in error.str():  # librdkafka's code says no more than that it is fatal
            raise FencedError(
                f"another process runs as {self._settings.instance!r}, or a restarted broker takes this one for another: it "
                "ends, and may start anew; give each process of a component its own KSTORM_INSTANCE"
            )
        raise_if_final(error, self._topic, self._group)
        if not self._searches.begin(message) and error.code() != KafkaError._PARTITION_EOF:
            self._log.warning("consumer_error", error=error.str())
        return False

    def _regulate(self) -> None:
        """Pauses what is not ready, or everything while too much is in flight; a paused partition keeps its task."""
        if not self._throttled and self._overloaded(_HIGH_RECORDS, _HIGH_BYTES):
            patience = time.monotonic() + _PATIENCE_SECONDS
            while self._overloaded(_LOW_RECORDS, _LOW_BYTES) and time.monotonic() < patience:
                self._orders.serve()
                time.sleep(0.005)
            self._throttled = self._overloaded(_LOW_RECORDS, _LOW_BYTES)
        elif self._throttled:
            self._throttled = self._overloaded(_LOW_RECORDS, _LOW_BYTES)
        wanted = (
            set(self.assignment)
            if self._throttled or not self._reads
            else self.assignment & self.preparing
        )
        if pause := wanted - self._paused:
            self._consumer.pause(self._places(pause))
        if resume := (self._paused - wanted) & self.assignment:
            self._consumer.resume(self._places(resume))
        self._paused = wanted

    def _overloaded(self, records: int, size: int) -> bool:
        return self._in_flight > records or self._in_flight_bytes > size

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
            # Tasks move in two rounds: in the first, which asks others to let go of them, none comes yet.
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
        """From where the group's members go on, by partition."""
        if not (places and self._reads):
            return {place.partition: OFFSET_END for place in places}
        return committed_offsets(
            consumer, places, self._group, self._settings, must_be_there=self._from_committed
        )

    def _end_if_failed(self, future: "Future[None]") -> None:
        error = future.exception()
        if isinstance(error, Exception):
            self._fatal(error)

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._release(consumer, places, lost=False)

    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._release(consumer, places, lost=True)

    def _release(self, consumer: Consumer, places: list[TopicPartition], *, lost: bool) -> None:
        self._metadata = None
        partitions = [place.partition for place in places]
        if partitions:
            self._log.info("tasks_lost" if lost else "tasks_revoked", partitions=sorted(partitions))
            letting_go = self._owner.lost(partitions) if lost else self._owner.revoked(partitions)
            done = asyncio.run_coroutine_threadsafe(letting_go, self._loop)
            self._wait_for(done)
        self.assignment.difference_update(partitions)
        self.preparing.difference_update(partitions)
        self._paused.difference_update(partitions)
        for partition in partitions:
            self._searches.forget(Partition(self._topic, partition))
        consumer.incremental_unassign(places)

    def _wait_for(self, done: "Future[None]") -> None:
        """Waits for a coroutine of the event loop, which may itself give orders to this thread."""
        deadline = time.monotonic() + self._revoke_secs
        while not done.done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"tasks were not released within {self._revoke_secs:.0f} s")
            self._orders.serve()
            time.sleep(0.005)
        done.result()

    def _commit(self, offsets: Mapping[int, int], *, asynchronous: bool) -> None:
        positions = [
            TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()
        ]
        try:
            if asynchronous:
                self._consumer.commit(offsets=positions, asynchronous=True)
            else:
                self._consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as error:
            self._log.warning("commit_refused", error=error.args[0].str(), offsets=offsets)

    def _places(self, partitions: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in partitions]


def _most_ms_without_poll(revoke_secs: float, session_timeout_ms: int) -> int:
    """`max.poll.interval.ms`. The group waits so long for members that are to join it anew, so it must be longer than tasks may
    take to be let go of. It is also for how long librdkafka waits to be let in, before it asks again: so it is no longer than
    that. Brokers forget to answer: one did that was killed and, when it came back, loaded its groups twice."""
    return min(
        max(session_timeout_ms, int((revoke_secs + _POLL_MARGIN_SECONDS) * 1000)),
        _MOST_POLL_INTERVAL_MS,
    )
