"""Check a topology's source and sink topics before it starts.

These are the topics that its KafkaSpouts read and its KafkaBolts always write. kstorm does not
create them, because they do not belong to the topology. Without this check, a spout whose topic is
missing would be ready and wait for the topic. Topics that a bolt chooses per tuple cannot be
checked, because only the bolt's code determines them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined] # its stubs hide some

from kstorm.errors import BrokerError, TopicError
from kstorm.kafka import KafkaBolt, KafkaHosts, KafkaSpout, SpoutConfig, StaticHosts, ZkHosts
from kstorm.kafka.hosts import bootstrap_servers, topics_matching
from kstorm.runtime.base.partition_lookup import NoTopicError
from kstorm.runtime.base.secrets import describe_login
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.topology import Topology

_ANSWER_SECS: Final = 20.0
_OLD_BROKER: Final = KafkaError._UNSUPPORTED_FEATURE


def check_endpoints(topology: Topology, settings: Settings) -> None:
    """Raise `TopicError` with a line for each unusable topic.

    Raises `BrokerError` if a Kafka or ZooKeeper does not respond.
    """
    if wrong := list(endpoint_faults(topology, settings)):
        hint = (
            "to start anyway: --allow-missing-ends, or in the chart prepare.allowMissingEnds=true"
        )
        raise TopicError("\n".join([*wrong, hint]))


def endpoint_faults(topology: Topology, settings: Settings) -> Iterator[str]:
    """Yield a line for each unusable topic, with its remedy.

    Raises `BrokerError` like `check_endpoints`.
    """
    own = topology.topics().keys() | topology.changelogs().keys()
    for spec in topology.spouts:
        if isinstance(spec.component, KafkaSpout):
            yield from _of_spout(
                f"the spout {spec.id!r} reads", spec.component.spout_config, settings, own
            )
    for spec in topology.bolts:
        if isinstance(spec.component, KafkaBolt) and spec.component.topic:
            kafka = _Kafka.of(
                f"the bolt {spec.id!r} writes", settings, spec.component.producer_properties or {}
            )
            yield from kafka.amiss([spec.component.topic], AclOperation.WRITE)


def _of_spout(
    does: str, config: SpoutConfig, settings: Settings, own: Collection[str]
) -> Iterator[str]:
    hosts, topics, brokers = config.hosts, [config.topic], None
    if isinstance(hosts, ZkHosts):
        try:
            topics, brokers = _in_zookeeper(hosts, config, settings)
        except NoTopicError as error:
            yield f"{does} the topic {config.topic!r}: {error}"
            return
    elif isinstance(hosts, KafkaHosts | StaticHosts):
        brokers = hosts.bootstrap_servers
    there = {"bootstrap.servers": brokers} if brokers else {}
    kafka = _Kafka.of(does, settings, {**there, **config.kafka_properties})
    if config.kafka_topic_wildcard_match:
        found = (
            topics if isinstance(hosts, ZkHosts) else topics_matching(config.topic, kafka.topics())
        )
        topics = [topic for topic in found if topic not in own]
        if not topics:
            where = (
                f"ZooKeeper at {hosts.zk_connect}"
                if isinstance(hosts, ZkHosts)
                else f"Kafka at {kafka.servers}"
            )
            yield (
                f"{does} every topic that matches {config.topic!r}, but {where} has none: "
                "create one, or correct the expression"
            )
            return
    partitions = hosts.partition_information.partition_map if isinstance(hosts, StaticHosts) else ()
    yield from kafka.amiss(topics, AclOperation.READ, partitions)


def _in_zookeeper(hosts: ZkHosts, config: SpoutConfig, settings: Settings) -> tuple[list[str], str]:
    """Return the topics to read and the brokers that lead them."""
    # Only this case needs kazoo.
    from kstorm.runtime.zookeeper.registered_brokers import DynamicBrokersReader

    properties: Mapping[str, Any] = {**settings.kafka_properties, **config.kafka_properties}
    protocol = str(properties.get("security.protocol", "plaintext"))
    reader = DynamicBrokersReader(
        hosts,
        security_protocol=protocol,
        wildcard=config.kafka_topic_wildcard_match,
        tls=settings.zookeeper_tls,
    )
    found = reader.get_broker_info(config.topic)
    return [information.topic for information in found], bootstrap_servers(found)


@dataclass(frozen=True, slots=True)
class _Kafka:
    """A Kafka cluster that a component reads or writes."""

    does: str
    """Text such as `the spout 'lines' reads`."""
    admin: Admin
    settings: Settings
    elsewhere: bool
    """True if it is not the topology's own cluster."""

    @classmethod
    def of(cls, does: str, settings: Settings, properties: Mapping[str, Any]) -> "_Kafka":
        """Create one from the librdkafka properties that are specific to the component's client."""
        there = replace(settings, kafka_properties={**settings.kafka_properties, **properties})
        return cls(does, Admin(there), there, "bootstrap.servers" in properties)

    @property
    def servers(self) -> str:
        return str(self.settings.client_config["bootstrap.servers"])

    def topics(self) -> Collection[str]:
        """Return every topic that this user may describe."""
        try:
            return self.admin.partition_counts().keys()
        except BrokerError as error:
            raise (
                BrokerError(f"{self.does} at another Kafka: {error}") if self.elsewhere else error
            ) from None

    def amiss(
        self, topics: Sequence[str], right: AclOperation, partitions: Iterable[int] = ()
    ) -> Iterator[str]:
        """Yield the problems of topics that the component uses.

        `partitions` are the ones named by the component.
        """
        # If a broker rejects every connection, listing the topics gives the best error.
        self.topics()
        asked = self.admin.client.describe_topics(
            TopicCollection(list(topics)),
            include_authorized_operations=True,
            request_timeout=_ANSWER_SECS,
        )
        for topic, answer in asked.items():
            try:
                found = answer.result()
            except KafkaException as error:
                if why := self._why_not(topic, error.args[0], right):
                    yield f"{self.does} the topic {topic!r}, {why}"
                continue
            count, may = len(found.partitions), found.authorized_operations
            if not count:
                yield (
                    f"{self.does} the topic {topic!r}, which has no partitions at "
                    f"{self.servers}: create it again"
                )
            elif beyond := [number for number in partitions if number >= count]:
                yield (
                    f"{self.does} the partitions {beyond} of the topic {topic!r}, which has "
                    f"{count} at {self.servers}: correct StaticHosts, or add partitions"
                )
            # None means that the broker does not report the allowed operations.
            elif may is not None and right not in may:
                yield (
                    f"{self.does} the topic {topic!r}, but is not allowed to: {self._remedy(right)}"
                )

    def _why_not(self, topic: str, error: KafkaError, right: AclOperation) -> str:
        """Explain why a topic cannot be described.

        Raises `BrokerError` if the broker does not respond.

        Empty if the broker is too old for this request.
        """
        match error.code():
            case KafkaError.UNKNOWN_TOPIC_OR_PART:
                return (
                    f"but Kafka at {self.servers} has no such topic: create it, or correct the name"
                )
            case KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return f"but is not even allowed to check that it exists: {self._remedy(right)}"
            case code if code == _OLD_BROKER:
                return ""
        raise BrokerError(
            f"Kafka at {self.servers} did not describe the topic {topic!r}: {error.str()}"
        )

    def _remedy(self, right: AclOperation) -> str:
        login = describe_login(self.settings.client_config)
        return f"allow this user ({login}) {right.name} on it at {self.servers}"
