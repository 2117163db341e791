"""Reads a `KafkaSpout`'s partitions with librdkafka. Implements `SourceReader`.

Each spout task has one consumer with manual assignment, so there are no rebalances. Its group,
named like the spout config's `id`, only publishes the offsets for lag tools. Blocking look-ups (of
partitions, and of offsets for times) run on a separate thread of this module. The config's `hosts`
determine where partitions are looked up and which brokers to connect to. With `ZkHosts`, the client
is opened once ZooKeeper has returned the brokers.
"""

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstorm.errors import BrokerError, ConfigError, KstormError
from kstorm.kafka.config import EARLIEST_TIME, LATEST_TIME, SpoutConfig
from kstorm.kafka.hosts import GlobalPartitionInformation, StaticHosts, ZkHosts, bootstrap_servers
from kstorm.kafka.ports import Broker, Partition, SourceFault, SourceMessage
from kstorm.runtime.base.client_log import CLIENT_LOG
from kstorm.runtime.base.partition_lookup import LOOK_UP_SECS, BrokersReader, NoTopicError
from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls
from kstorm.runtime.kafka.broker_loss import BrokerLossDetector
from kstorm.runtime.kafka.brokers import KafkaBrokersReader, StaticBrokersReader
from kstorm.runtime.kafka.open_transactions import OpenTransactions
from kstorm.runtime.kafka.source_properties import consumer_properties
from kstorm.runtime.kafka.statistics import INTERVAL_MS, read_statistics
from kstorm.runtime.kafka.undecodable import UndecodableBatchProbe

log = logging.getLogger(__name__)

_COMMITTED: Final = "read_committed"  # librdkafka's default
_PAUSE_AFTER_FAILURE_SECS: Final = 1.0
_LOOK_AGAIN_SECS: Final = 0.1
_REPEAT_FAULT_SECS: Final = 30.0
_OUT_OF_RANGE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
# Remove the duration, so that a repeated fault has the same text.
_HOW_LONG: Final = re.compile(r" \(after [0-9]+ms in state .*\)")
_TOLD_GLOBALLY: Final = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError._FATAL,
)


class KafkaSource:
    """A `SourceReader`.

    `client_config` are the process's librdkafka properties: brokers, TLS, SASL. `zookeeper_tls`
    applies to the ZooKeeper of `ZkHosts`. Raises `ConfigError` if librdkafka rejects a property, or
    `ZkHosts` has a malformed connect string.
    """

    def __init__(
        self,
        config: SpoutConfig,
        client_config: Mapping[str, Any],
        zookeeper_tls: ZooKeeperTls | None = None,
    ) -> None:
        self._config, self._zookeeper_tls = config, zookeeper_tls
        self._properties = consumer_properties(config, client_config)
        self._faults: list[SourceFault] = []
        self._told: dict[str, float] = {}  # the time of the last report of each fault
        self._searches = UndecodableBatchProbe(self._properties)
        self._forgotten = BrokerLossDetector()
        self._transactions: dict[str, OpenTransactions] = {}
        self._client: Consumer | None = None
        self._reader = self._open_reader()
        # The offset from which each partition is read.
        self._assigned: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._ends: dict[Partition, int] = {}
        self._known: dict[str, Mapping[Partition, Broker]] = {}
        self._refreshes: dict[str, Future[Mapping[Partition, Broker]]] = {}
        self._offsets: dict[tuple[Partition, int], Future[int]] = {}
        self._closing = threading.Event()
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="kafka-source")

    def refresh(self, topic: str) -> None:
        if topic not in self._refreshes:
            self._refreshes[topic] = self._asking.submit(self._ask_partitions, topic)

    def partitions(self, topic: str) -> Mapping[Partition, Broker] | None:
        asked = self._refreshes.get(topic)
        if asked is not None and asked.done():
            del self._refreshes[topic]
            try:
                self._known[topic] = asked.result()
            except NoTopicError as error:
                # The topic may be missing temporarily. An empty entry records that a look-up has
                # ended.
                self._known.setdefault(topic, {})
                self._tell(SourceFault(str(error)))
            except KstormError as error:
                self._tell(SourceFault(str(error)))
        return self._known.get(topic)

    def offset_for(self, partition: Partition, time: int) -> int | None:
        asked = self._offsets.get((partition, time))
        if asked is None:
            self._offsets[partition, time] = self._asking.submit(self._ask_offset, partition, time)
            return None
        if not asked.done():
            return None
        del self._offsets[partition, time]
        try:
            return asked.result()
        except BrokerError as error:
            self._tell(SourceFault(str(error), partition))
            return None

    def assign(self, partition: Partition, offset: int) -> None:
        self.unassign(partition)
        self._consumer.incremental_assign([TopicPartition(*partition, offset)])
        self._assigned[partition] = offset

    def unassign(self, partition: Partition) -> None:
        for asked in [asked for asked in self._offsets if asked[0] == partition]:
            del self._offsets[asked]
        self._searches.forget(partition)
        self._ends.pop(partition, None)
        self._faults = [
            fault
            for fault in self._faults
            if fault.undecodable is None or fault.partition != partition
        ]
        if partition in self._assigned:
            # librdkafka would keep the partition paused forever, even after it is assigned again.
            if partition in self._paused:
                self.resume(partition)
            del self._assigned[partition]
            self._consumer.incremental_unassign([TopicPartition(*partition)])

    def pause(self, partition: Partition) -> None:
        self._paused.add(partition)
        self._consumer.pause([TopicPartition(*partition)])

    def resume(self, partition: Partition) -> None:
        self._paused.discard(partition)
        self._consumer.resume([TopicPartition(*partition)])

    def read(self, max_messages: int) -> Sequence[SourceMessage]:
        """Return fetched messages, and serve the client's callbacks."""
        if self._client is None:
            return ()
        messages = self._client.consume(max_messages, 0)
        failed = [message for message in messages if message.error() is not None]
        if failed:
            messages = [message for message in messages if message.error() is None]
            for message in failed:
                self._note(message)
        return cast("list[SourceMessage]", messages)

    def faults(self) -> Sequence[SourceFault]:
        """Return the faults since the last call. Each is repeated at most every 30 s."""
        if self._forgotten.all:
            self._renew()
        for partition, batch in self._searches.ended():
            reason = f"{partition}: {batch.reason}"
            self._faults.append(
                SourceFault(reason, partition, undecodable=(batch.first, batch.end))
            )
        faults, self._faults = self._faults, []
        return faults

    def ends_reached(self) -> Mapping[Partition, int]:
        ends, self._ends = self._ends, {}
        return ends

    def end_offset(self, partition: Partition) -> int | None:
        _, end = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        return end if end >= 0 else None

    def commit(self, partition: Partition, offset: int) -> None:
        """Publish `offset` as the group's offset. A failure is only logged."""
        try:
            self._consumer.commit(offsets=[TopicPartition(*partition, offset)], asynchronous=True)
        except KafkaException as error:
            log.debug("the group's offset is not mirrored: %s", _reason(error))

    def close(self) -> None:
        """Close the connections. A pending look-up delays this by up to 5 s."""
        self._closing.set()
        self._asking.shutdown(cancel_futures=True)
        self._searches.close()
        if self._client is not None:
            self._client.close()

    @property
    def open_transactions(self) -> Sequence[OpenTransactions]:
        """The open transactions of other producers that block this reader."""
        return [*self._transactions.values()] if self._assigned else []

    @property
    def _consumer(self) -> Consumer:
        """The client. It is open whenever partitions are known."""
        assert self._client is not None, "no partitions are known yet"
        return self._client

    @property
    def _brokers(self) -> str | None:
        return self._properties.get("bootstrap.servers")

    def _open_reader(self) -> BrokersReader:
        config, wildcard = self._config, self._config.kafka_topic_wildcard_match
        if isinstance(config.hosts, ZkHosts):
            from kstorm.runtime.zookeeper.registered_brokers import (
                DynamicBrokersReader,
            )  # others need no kazoo

            protocol = str(self._properties.get("security.protocol", "plaintext"))
            return DynamicBrokersReader(
                config.hosts, security_protocol=protocol, wildcard=wildcard, tls=self._zookeeper_tls
            )
        self._open_client()
        if isinstance(config.hosts, StaticHosts):
            return StaticBrokersReader(config.hosts)
        return self._brokers_reader()

    def _open_client(self) -> None:
        self._forgotten = BrokerLossDetector()
        config = {
            **self._properties,
            "error_cb": self._failed,
            "on_commit": _mirrored,
            "statistics.interval.ms": INTERVAL_MS,
            "stats_cb": partial(self._heard, self._forgotten),
        }
        try:
            self._client = Consumer(config, logger=CLIENT_LOG)
        except (KafkaException, TypeError, ValueError) as error:
            raise ConfigError(
                f"the spout {self._config.id!r} cannot read {self._config.topic!r}: "
                f"{_reason(error)}"
            ) from None

    def _renew(self) -> None:
        """Replace the client by a new one that continues at the same positions."""
        log.warning(
            "%s",
            "the client that reads the source has lost the addresses of all brokers: a new "
            "client continues",
        )
        old, assigned = self._consumer, [TopicPartition(*partition) for partition in self._assigned]
        stands = {
            Partition(place.topic, place.partition): place.offset
            for place in old.position(assigned)
        }
        begin = [
            TopicPartition(*place, max(stands[place], offset))
            for place, offset in self._assigned.items()
        ]
        self._open_client()
        if isinstance(self._reader, KafkaBrokersReader):
            self._reader = self._brokers_reader()
        self._consumer.assign(begin)
        if self._paused:
            self._consumer.pause([TopicPartition(*partition) for partition in self._paused])
        # Closing the old client may take a long time.
        threading.Thread(target=old.close, name="kafka-source-old", daemon=True).start()

    def _brokers_reader(self) -> KafkaBrokersReader:
        return KafkaBrokersReader(
            self._consumer, str(self._brokers), wildcard=self._config.kafka_topic_wildcard_match
        )

    def _ask_partitions(self, topic: str) -> Mapping[Partition, Broker]:
        found = self._reader.get_broker_info(topic)
        if isinstance(self._config.hosts, ZkHosts):
            self._tell_client(found, self._known.get(topic, {}))
        return {
            Partition(information.topic, number): information.partition_map[number]
            for information in found
            for number in sorted(information.partition_map)
        }

    def _tell_client(
        self, found: Sequence[GlobalPartitionInformation], known: Mapping[Partition, Broker]
    ) -> None:
        """Refresh the client's metadata so that it knows new partitions.

        On its own, the client looks for new partitions every 5 minutes.
        """
        for information in found:
            if all(partition in known for partition in information):
                continue
            if self._client is None:
                brokers = bootstrap_servers(found)
                if not brokers:
                    raise BrokerError(
                        f"no partition of {self._config.topic!r} has a leader now: are its "
                        "brokers up?"
                    )
                self._properties.setdefault("bootstrap.servers", brokers)
                self._open_client()
            self._await_partitions(information)

    def _await_partitions(self, information: GlobalPartitionInformation) -> None:
        """Wait until the brokers know the partitions in ZooKeeper, which takes a moment."""
        deadline = time.monotonic() + LOOK_UP_SECS
        while True:
            try:
                metadata = self._consumer.list_topics(information.topic, LOOK_UP_SECS)
            except KafkaException as error:
                reason = _reason(error)
            else:
                if (
                    information.partition_map.keys()
                    <= metadata.topics[information.topic].partitions.keys()
                ):
                    return
                reason = "the broker does not have all of them"
            if time.monotonic() > deadline or self._closing.wait(_LOOK_AGAIN_SECS):
                raise BrokerError(
                    f"Kafka at {self._brokers}, an address from ZooKeeper, did not return the "
                    f"partitions of {information.topic!r}: {reason}"
                )

    def _ask_offset(self, partition: Partition, time: int) -> int:
        try:
            if time not in (EARLIEST_TIME, LATEST_TIME):
                found = self._consumer.offsets_for_times(
                    [TopicPartition(*partition, time)], LOOK_UP_SECS
                )[0]
                if found.error is not None:
                    raise KafkaException(found.error)
                if found.offset >= 0:
                    return found.offset
            start, end = self._consumer.get_watermark_offsets(
                TopicPartition(*partition), LOOK_UP_SECS
            )
        except KafkaException as error:
            self._closing.wait(_PAUSE_AFTER_FAILURE_SECS)  # the caller asks again immediately
            raise BrokerError(
                f"Kafka at {self._brokers} did not return the offsets of {partition}: "
                f"{_reason(error)}"
            ) from None
        return start if time == EARLIEST_TIME else end

    def _note(self, message: Message) -> None:
        """Handle an error at a position of the stream."""
        error, end = message.error(), message.offset()
        topic, number = message.topic(), message.partition()
        partition = (
            None if topic is None or number is None or number < 0 else Partition(topic, number)
        )
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            # This event follows the last message, and its offset is after markers and aborted
            # records.
            if partition in self._assigned and end is not None and end >= 0:
                self._ends[partition] = end
            return
        if error is None or (partition in self._assigned and self._searches.begin(message)):
            return
        if partition is not None and error.code() in _OUT_OF_RANGE:
            reason = f"reading {partition} cannot continue: {error.str()}"
            self._faults.append(SourceFault(reason, partition, out_of_range=True))
        else:
            self._tell(
                SourceFault(f"reading {topic!r} from {self._brokers}: {error.str()}", partition)
            )

    def _heard(self, of_client: BrokerLossDetector, told: str) -> None:
        if of_client is not self._forgotten:  # that client has been replaced
            return
        statistics = read_statistics(told)
        self._forgotten.heard(statistics)
        read = self._assigned.keys() - self._paused
        self._searches.heard(statistics, read)
        if self._properties.get("isolation.level", _COMMITTED) != _COMMITTED:
            return
        for topic in {partition.topic for partition in self._assigned} | self._transactions.keys():
            numbers = {each.partition for each in read if each.topic == topic}
            self._transactions.setdefault(topic, OpenTransactions(topic)).heard(statistics, numbers)

    def _failed(self, error: KafkaError) -> None:
        if error.code() in _TOLD_GLOBALLY:
            self._tell(SourceFault(f"Kafka at {self._brokers}: {_HOW_LONG.sub('', error.str())}"))

    def _tell(self, fault: SourceFault) -> None:
        now = time.monotonic()
        if now - self._told.get(fault.reason, float("-inf")) >= _REPEAT_FAULT_SECS:
            self._told[fault.reason] = now
            self._faults.append(fault)


def _mirrored(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
    if error is not None:
        log.debug("the group's offset is not mirrored: %s", error.str())


def _reason(error: Exception) -> str:
    cause = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
