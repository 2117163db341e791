"""The Kafka source and sink of a topology, `KafkaSpout` and `KafkaBolt`, and their configuration."""

from kstorm.kafka.bolt import KafkaBolt
from kstorm.kafka.callback import ProducerCallback, RecordMetadata
from kstorm.kafka.config import (
    EARLIEST_TIME,
    LATEST_TIME,
    KafkaConfig,
    ProcessingGuarantee,
    SpoutConfig,
)
from kstorm.kafka.coordinator import PartitionCoordinator, StaticCoordinator, ZkCoordinator
from kstorm.kafka.hosts import (
    BrokerHosts,
    GlobalPartitionInformation,
    KafkaHosts,
    StaticHosts,
    ZkHosts,
)
from kstorm.kafka.mapper import (
    DefaultTopicSelector,
    FieldIndexTopicSelector,
    FieldNameBasedTupleToKafkaMapper,
    FieldNameTopicSelector,
    TopicSelector,
    TupleToKafkaMapper,
)
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.partition_assignment import calculate_partitions_for_task
from kstorm.kafka.partition_manager import KafkaMessageId, PartitionManager
from kstorm.kafka.ports import KAFKA, Broker, KafkaPorts, Partition
from kstorm.kafka.retry import ExponentialBackoffRetryManager
from kstorm.kafka.retry_manager import FailedMessageRetryManager
from kstorm.kafka.scheme import (
    JsonScheme,
    KeyValueScheme,
    KeyValueSchemeAsMultiScheme,
    MessageMetadataSchemeAsMultiScheme,
    MultiScheme,
    RawMultiScheme,
    Scheme,
    SchemeAsMultiScheme,
    StringKeyValueScheme,
    StringMultiSchemeWithTopic,
    StringScheme,
)
from kstorm.kafka.serializer import (
    BytesSerializer,
    IntegerSerializer,
    JsonSerializer,
    LongSerializer,
    Serializer,
    StringSerializer,
)
from kstorm.kafka.spout import KafkaSpout

__all__ = [
    "EARLIEST_TIME",
    "KAFKA",
    "LATEST_TIME",
    "Broker",
    "BrokerHosts",
    "BytesSerializer",
    "DefaultTopicSelector",
    "ExponentialBackoffRetryManager",
    "FailedMessageRetryManager",
    "FieldIndexTopicSelector",
    "FieldNameBasedTupleToKafkaMapper",
    "FieldNameTopicSelector",
    "GlobalPartitionInformation",
    "IntegerSerializer",
    "JsonScheme",
    "JsonSerializer",
    "KafkaBolt",
    "KafkaConfig",
    "KafkaHosts",
    "KafkaMessageId",
    "KafkaPorts",
    "KafkaSpout",
    "KeyValueScheme",
    "KeyValueSchemeAsMultiScheme",
    "LongSerializer",
    "MessageMetadataSchemeAsMultiScheme",
    "MultiScheme",
    "Partition",
    "PartitionCoordinator",
    "PartitionManager",
    "ProcessingGuarantee",
    "ProducerCallback",
    "RawMultiScheme",
    "RecordMetadata",
    "Scheme",
    "SchemeAsMultiScheme",
    "Serializer",
    "SpoutConfig",
    "StaticCoordinator",
    "StaticHosts",
    "StoredOffset",
    "StringKeyValueScheme",
    "StringMultiSchemeWithTopic",
    "StringScheme",
    "StringSerializer",
    "TopicSelector",
    "TupleToKafkaMapper",
    "ZkCoordinator",
    "ZkHosts",
    "calculate_partitions_for_task",
]
