"""Reads completions of a spout's trees, independently of the consumer group that assigns its tasks.

A task receives completions only for trees emitted after it was assigned, because earlier trees have
no pending message here. It still receives them while the group waits for the task to be released.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstorm.errors import BrokerError
from kstorm.kafka.cluster import Partition
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.broker_loss import BrokerLossDetector
from kstorm.runtime.kafka.client_errors import raise_if_final
from kstorm.runtime.kafka.consumer_calls import ConsumerCallQueue
from kstorm.runtime.kafka.fetch_limits import OWN_TOPICS
from kstorm.runtime.kafka.partition_bounds import partition_ends
from kstorm.runtime.kafka.statistics import INTERVAL_MS, read_statistics
from kstorm.runtime.kafka.undecodable import UndecodableBatchProbe, UndecodableRange

log = logging.getLogger(__name__)

_CLIENT_TIMEOUT = 20.0
_POLL_SECONDS = 0.05


class CompletionsReader(threading.Thread):
    """Reads the completions of this process's tasks on its own thread."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[list[Message]], None],
        pass_over: Callable[[int, UndecodableRange], None],
        fatal: Callable[[Exception], None],
    ) -> None:
        """`deliver` and `pass_over` are called on the event loop, like those of `TaskOwner`."""
        super().__init__(name="completions-reader", daemon=True)
        self._topic, self._loop, self._fatal = topic, loop, fatal
        self._deliver, self._pass_over = deliver, pass_over
        self._said = ""
        self._read: set[Partition] = set()
        self._stopping = threading.Event()
        self._orders = ConsumerCallQueue()
        self._new: dict[int, Future[None]] = {}
        config = {
            **settings.client_config,
            "client.id": settings.instance,
            "group.id": f"{topic}.readers",  # required by the client; nothing is committed
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "queued.max.messages.kbytes": 16 * 1024,
            "fetch.wait.max.ms": 100,
            **OWN_TOPICS,
            "fetch.queue.backoff.ms": 20,
            "statistics.interval.ms": INTERVAL_MS,
            "stats_cb": self._heard,
        }
        self._forgotten = BrokerLossDetector()
        self._consumer = Consumer(config)
        self._searches = UndecodableBatchProbe(config)

    async def add(self, partition: int) -> None:
        """Start reading a partition at its current end, which is known when this returns."""
        added: Future[None] = Future()
        self._orders.give(lambda: self._new.__setitem__(partition, added))
        await asyncio.wrap_future(added)

    async def remove(self, partition: int) -> None:
        await asyncio.wrap_future(self._orders.give(lambda: self._unassign(partition)))

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._orders.serve()
                if self._new:
                    self._assign_new()
                self._go_on_behind()
                self._forgotten.check(self._topic)
                first = self._consumer.poll(_POLL_SECONDS)
                if first is not None:
                    self._take([first, *self._consumer.consume(100, 0)])
        except KafkaException as error:
            # confluent-kafka raises errors that are fatal to the whole client.
            self._fatal(
                BrokerError(f"reading {self._topic!r} failed permanently: {error.args[0].str()}")
            )
        except Exception as error:  # noqa: BLE001 - the thread must not die silently
            self._fatal(error)
        finally:
            self._searches.close()
            self._consumer.close()

    def _go_on_behind(self) -> None:
        """Report undecodable batches to the spout's process and continue after them."""
        for place, batch in self._searches.ended():
            self._consumer.seek(TopicPartition(*place, batch.end))
            self._loop.call_soon_threadsafe(self._pass_over, place.partition, batch)

    def _heard(self, told: str) -> None:
        statistics = read_statistics(told)
        self._forgotten.heard(statistics)
        self._searches.heard(statistics, self._read)

    def _take(self, polled: list[Message]) -> None:
        """Deliver the records. Log a temporary error once, until it changes or reading succeeds."""
        good = []
        for message in polled:
            error = message.error()
            if error is None:
                good.append(message)
                self._said = ""
                continue
            raise_if_final(error, self._topic)
            if self._searches.begin(message):
                continue
            if error.code() != KafkaError._PARTITION_EOF and error.str() != self._said:
                self._said = error.str()
                log.warning("reading %r: %s", self._topic, self._said)
        if good:
            self._loop.call_soon_threadsafe(self._deliver, good)

    def _assign_new(self) -> None:
        """Start reading all new partitions with one look-up. It waits for the fetch that is under
        way, so one for each partition would take up to a second for a dozen tasks."""
        new = {
            partition: added
            for partition, added in self._new.items()
            if added.set_running_or_notify_cancel()
        }
        self._new = {}
        if not new:
            return
        try:
            ends = partition_ends(self._consumer, self._topic, list(new), _CLIENT_TIMEOUT)
            self._consumer.incremental_assign(ends)
        except KafkaException as error:
            numbers = ", ".join(map(str, sorted(new)))
            for added in new.values():
                added.set_exception(
                    BrokerError(
                        f"the end of {self._topic!r}, partition {numbers}, cannot be read: "
                        f"{error.args[0].str()}"
                    )
                )
            return
        self._read.update(Partition(self._topic, partition) for partition in new)
        for added in new.values():
            added.set_result(None)

    def _unassign(self, partition: int) -> None:
        if added := self._new.pop(partition, None):
            added.set_result(None)
            return
        self._read.discard(Partition(self._topic, partition))
        self._searches.forget(Partition(self._topic, partition))
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])

    def stop(self) -> None:
        self._stopping.set()
        self.join()
