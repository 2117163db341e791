"""Looks up the partitions of a spout in Kafka or `StaticHosts`.

`kstorm.runtime.zookeeper.registered_brokers` looks them up in ZooKeeper.
"""

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException

from kstorm.errors import BrokerError
from kstorm.kafka.hosts import GlobalPartitionInformation, StaticHosts, topics_matching
from kstorm.kafka.ports import UNKNOWN_BROKER, Broker
from kstorm.runtime.base.partition_lookup import LOOK_UP_SECS, NoTopicError


class StaticBrokersReader:
    """Returns the partitions of `StaticHosts` (Storm's `StaticBrokerReader`)."""

    def __init__(self, hosts: StaticHosts) -> None:
        self._hosts = hosts

    def get_broker_info(self, topic: str) -> Sequence[GlobalPartitionInformation]:
        return [self._hosts.partition_information]


class KafkaBrokersReader:
    """Reads the cluster metadata from a broker. `wildcard`: topics are regular expressions."""

    def __init__(self, consumer: Consumer, bootstrap_servers: str, *, wildcard: bool) -> None:
        self._consumer, self._bootstrap_servers, self._wildcard = (
            consumer,
            bootstrap_servers,
            wildcard,
        )

    def get_broker_info(self, topic: str) -> Sequence[GlobalPartitionInformation]:
        asked = {} if self._wildcard else {"topic": topic}
        try:
            metadata = self._consumer.list_topics(timeout=LOOK_UP_SECS, **asked)
        except KafkaException as error:
            what = (
                f"the topics that match {topic!r}"
                if self._wildcard
                else f"the partitions of topic {topic!r}"
            )
            raise BrokerError(
                f"Kafka at {self._bootstrap_servers} did not return {what}: {error.args[0].str()}"
            ) from None
        leaders = {id: Broker(broker.host, broker.port) for id, broker in metadata.brokers.items()}
        found = []
        for name in topics_matching(topic, metadata.topics) if self._wildcard else [topic]:
            described = metadata.topics[name]
            if self._wildcard and _is_unknown(described.error):
                continue
            if described.error is not None or not described.partitions:
                reason = (
                    "it has no partitions" if described.error is None else described.error.str()
                )
                kind = NoTopicError if _is_unknown(described.error) else BrokerError
                raise kind(
                    f"topic {name!r} cannot be read from {self._bootstrap_servers}: {reason}; "
                    "create it, or name another"
                )
            information = GlobalPartitionInformation(name)
            for number in sorted(described.partitions):
                information.add_partition(
                    number, leaders.get(described.partitions[number].leader, UNKNOWN_BROKER)
                )
            found.append(information)
        return found


def _is_unknown(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
