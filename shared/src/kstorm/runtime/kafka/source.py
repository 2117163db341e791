"""Reads a `KafkaSpout`'s partitions with librdkafka: the `SourceReader` of `kstorm.kafka.ports`.

One consumer per spout task, assigned by hand: there are no rebalances. Its group, named like the spout config's `id`,
only shows the offsets to lag tools. Fetching goes on in librdkafka's own threads; what would wait for an answer (which
partitions, which offset at a time) is asked by one thread of ours. Whom to ask for partitions, and which brokers to
connect to, is the config's `hosts`; with `ZkHosts` the client opens once ZooKeeper has told the brokers.
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
from kstorm.kafka.config import EARLIEST_TIME, LATEST_TIME, SPOUTS_OWN_PROPERTIES, SpoutConfig
from kstorm.kafka.hosts import (
    GlobalPartitionInformation,
    KafkaHosts,
    StaticHosts,
    ZkHosts,
    bootstrap_servers,
)
from kstorm.kafka.ports import Broker, Partition, SourceFault, SourceMessage
from kstorm.runtime.kafka.brokers import (
    LOOK_UP_SECS,
    BrokersReader,
    KafkaBrokersReader,
    NoTopicError,
    StaticBrokersReader,
)
from kstorm.runtime.kafka.forgotten import Forgotten
from kstorm.runtime.kafka.statistics import INTERVAL_MS, read_statistics
from kstorm.runtime.kafka.undecodable import Searches
from kstorm.runtime.service.log import CLIENT_LOG
from kstorm.runtime.zookeeper.tls import ZooKeeperTls

log = logging.getLogger(__name__)

_PAUSE_AFTER_FAILURE_SECS: Final = 1.0
_LOOK_AGAIN_SECS: Final = 0.1
_REPEAT_FAULT_SECS: Final = 30.0
_OUT_OF_RANGE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_HOW_LONG: Final = re.compile(
    r" \(after [0-9]+ms in state .*\)"
)  # else the same fault is another one each time
_TOLD_GLOBALLY: Final = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError._FATAL,
)


class KafkaSource:
    """A `SourceReader`. `client_config` has the librdkafka properties of the process: brokers, TLS, SASL; `zookeeper_tls` is how to
    connect to the ZooKeeper of `ZkHosts`.

    Raises `ConfigError` on a property that librdkafka refuses, or a malformed connect string of `ZkHosts`.
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
        self._told: dict[str, float] = {}  # when each fault was last told of
        self._searches = Searches(self._properties)
        self._forgotten = Forgotten()
        self._client: Consumer | None = None
        self._reader = self._open_reader()
        self._assigned: dict[Partition, int] = {}  # with the offset from which it is read
        self._paused: set[Partition] = set()
        self._known: dict[str, Mapping[Partition, Broker]] = {}
        self._refreshes: dict[str, Future[Mapping[Partition, Broker]]] = {}
        self._offsets: dict[tuple[Partition, int], Future[int]] = {}
        self._closing = threading.Event()
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="kafka-source")

    def refresh(self, topic: str) -> None:
        """Begins to look up the topic's partitions."""
        if topic not in self._refreshes:
            self._refreshes[topic] = self._asking.submit(self._ask_partitions, topic)

    def partitions(self, topic: str) -> Mapping[Partition, Broker] | None:
        """The partitions and their leaders as last looked up."""
        asked = self._refreshes.get(topic)
        if asked is not None and asked.done():
            del self._refreshes[topic]
            try:
                self._known[topic] = asked.result()
            except NoTopicError as error:  # it may be away for a moment, but who finds it later is to know that he had looked
                self._known.setdefault(topic, {})
                self._tell(SourceFault(str(error)))
            except KstormError as error:
                self._tell(SourceFault(str(error)))
        return self._known.get(topic)

    def offset_for(self, partition: Partition, time: int) -> int | None:
        """The first offset at or after a time; None while it is being looked up."""
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
        """Reads this partition from `offset`."""
        self.unassign(partition)
        self._consumer.incremental_assign([TopicPartition(*partition, offset)])
        self._assigned[partition] = offset

    def unassign(self, partition: Partition) -> None:
        """Reads this partition no more, and forgets what was being looked up of it."""
        for asked in [asked for asked in self._offsets if asked[0] == partition]:
            del self._offsets[asked]
        self._searches.forget(partition)
        self._faults = [
            fault
            for fault in self._faults
            if fault.undecodable is None or fault.partition != partition
        ]
        if partition in self._assigned:
            if (
                partition in self._paused
            ):  # librdkafka would keep it paused for ever, also when it is assigned again
                self.resume(partition)
            del self._assigned[partition]
            self._consumer.incremental_unassign([TopicPartition(*partition)])

    def pause(self, partition: Partition) -> None:
        """Stops to fetch a partition."""
        self._paused.add(partition)
        self._consumer.pause([TopicPartition(*partition)])

    def resume(self, partition: Partition) -> None:
        """Goes on where `pause` stopped."""
        self._paused.discard(partition)
        self._consumer.resume([TopicPartition(*partition)])

    def read(self, max_messages: int) -> Sequence[SourceMessage]:
        """What has been fetched; also serves the client's callbacks."""
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
        """What went wrong since the last call; the same thing at most every 30 s."""
        if self._forgotten.all:
            self._renew()
        for partition, batch in self._searches.ended():
            reason = f"{partition.topic}[{partition.partition}]: {batch.reason}"
            self._faults.append(
                SourceFault(reason, partition, undecodable=(batch.first, batch.end))
            )
        faults, self._faults = self._faults, []
        return faults

    def end_offset(self, partition: Partition) -> int | None:
        """The log's end as last heard with a fetch."""
        _, end = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        return end if end >= 0 else None

    def commit(self, partition: Partition, offset: int) -> None:
        """Shows `offset` as the group's; a failure is only logged."""
        try:
            self._consumer.commit(offsets=[TopicPartition(*partition, offset)], asynchronous=True)
        except KafkaException as error:
            log.debug("the group's offset is not mirrored: %s", _reason(error))

    def close(self) -> None:
        """Closes the connections; a look-up under way delays it by up to 5 s."""
        self._closing.set()
        self._asking.shutdown(cancel_futures=True)
        self._searches.close()
        if self._client is not None:
            self._client.close()

    @property
    def _consumer(self) -> Consumer:
        """The client; where there are partitions to do anything with, it is open."""
        assert self._client is not None, "no partitions are known yet"
        return self._client

    @property
    def _brokers(self) -> str | None:
        return self._properties.get("bootstrap.servers")

    def _open_reader(self) -> BrokersReader:
        config, wildcard = self._config, self._config.kafka_topic_wildcard_match
        if isinstance(config.hosts, ZkHosts):
            from kstorm.runtime.zookeeper.brokers import (
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
        self._forgotten = Forgotten()
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
                f"the spout {self._config.id!r} cannot read {self._config.topic!r}: {_reason(error)}"
            ) from None

    def _renew(self) -> None:
        """A new client reads on where this one stands."""
        log.warning(
            "%s", "the client that reads the source has forgotten all brokers: a new one reads on"
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
        threading.Thread(
            target=old.close, name="kafka-source-old", daemon=True
        ).start()  # it may take its time

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
        """Has the client hear of what is new; by itself it would look for partitions that were added every 5 minutes."""
        for information in found:
            if all(partition in known for partition in information):
                continue
            if self._client is None:
                brokers = bootstrap_servers(found)
                if not brokers:
                    raise BrokerError(
                        f"no partition of {self._config.topic!r} has a leader now: are its brokers up?"
                    )
                self._properties.setdefault("bootstrap.servers", brokers)
                self._open_client()
            self._await_partitions(information)

    def _await_partitions(self, information: GlobalPartitionInformation) -> None:
        """Waits until the brokers have what ZooKeeper has: they learn of it a little later."""
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
                    f"Kafka at {self._brokers}, which ZooKeeper names, did not tell the partitions of {information.topic!r}: "
                    f"{reason}"
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
            self._closing.wait(_PAUSE_AFTER_FAILURE_SECS)  # it will be asked again at once
            where = f"{partition.topic}[{partition.partition}]"
            raise BrokerError(
                f"Kafka at {self._brokers} did not tell the offsets of {where}: {_reason(error)}"
            ) from None
        return start if time == EARLIEST_TIME else end

    def _note(self, message: Message) -> None:
        """A place in the stream where there is an error instead of a message."""
        error = message.error()
        topic, number = message.topic(), message.partition()
        partition = (
            None if topic is None or number is None or number < 0 else Partition(topic, number)
        )
        if error is None or (partition in self._assigned and self._searches.begin(message)):
            return
        if partition is not None and error.code() in _OUT_OF_RANGE:
            where = f"{partition.topic}[{partition.partition}]"
            self._faults.append(
                SourceFault(
                    f"{where} cannot be read on: {error.str()}", partition, out_of_range=True
                )
            )
        else:
            self._tell(
                SourceFault(f"reading {topic!r} from {self._brokers}: {error.str()}", partition)
            )

    def _heard(self, of_client: Forgotten, told: str) -> None:
        if of_client is not self._forgotten:
            return  # it is being closed, and another one reads
        statistics = read_statistics(told)
        self._forgotten.heard(statistics)
        self._searches.heard(statistics, self._assigned.keys() - self._paused)

    def _failed(self, error: KafkaError) -> None:
        if error.code() in _TOLD_GLOBALLY:
            self._tell(SourceFault(f"Kafka at {self._brokers}: {_HOW_LONG.sub('', error.str())}"))

    def _tell(self, fault: SourceFault) -> None:
        now = time.monotonic()
        if now - self._told.get(fault.reason, float("-inf")) >= _REPEAT_FAULT_SECS:
            self._told[fault.reason] = now
            self._faults.append(fault)


def consumer_properties(config: SpoutConfig, client_config: Mapping[str, Any]) -> dict[str, Any]:
    """The librdkafka properties that a spout config comes to."""
    properties: dict[str, Any] = {
        **client_config,
        "group.id": config.id,
        "client.id": config.client_id or config.id,
        "fetch.message.max.bytes": config.fetch_size_bytes,
        # A request that the broker may hold back must not be given up before.
        "socket.timeout.ms": max(config.socket_timeout_ms, config.fetch_max_wait + 1000),
        "fetch.wait.max.ms": config.fetch_max_wait,
        "socket.receive.buffer.bytes": config.buffer_size_bytes,
        # A few batches are enough to have at hand; librdkafka's default is 100,000 messages of each partition.
        "queued.min.messages": 5000,
        "queued.max.messages.kbytes": 16 * 1024,
        # How long it rests once it has them. The default of a second would be the time to use them up ten times.
        "fetch.queue.backoff.ms": 10,
        # There is no membership to keep; it is how long a last commit waits for a broker that is down.
        "session.timeout.ms": 3000,
    }
    if isinstance(config.hosts, ZkHosts):
        properties.pop("bootstrap.servers", None)  # it knows those brokers that ZooKeeper tells
    elif (
        isinstance(config.hosts, KafkaHosts | StaticHosts)
        and config.hosts.bootstrap_servers is not None
    ):
        properties["bootstrap.servers"] = config.hosts.bootstrap_servers
    properties.update(config.kafka_properties)
    for name, value in SPOUTS_OWN_PROPERTIES.items():
        if str(properties.setdefault(name, value)).lower() != str(value).lower():
            log.warning(
                "the spout %r reads with %s=%s, whatever the process's Kafka properties say: it stores its offsets itself",
                config.id,
                name,
                str(value).lower(),
            )
        properties[name] = value
    return properties


def _mirrored(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
    if error is not None:
        log.debug("the group's offset is not mirrored: %s", error.str())


def _reason(error: Exception) -> str:
    cause = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
