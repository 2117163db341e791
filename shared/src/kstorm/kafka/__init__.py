"""Both ends of a topology on Kafka: `KafkaSpout` and `KafkaBolt`, and what configures them."""

from kstorm.kafka.bolt import KafkaBolt
from kstorm.kafka.config import EARLIEST_TIME, LATEST_TIME, KafkaConfig, KafkaHosts, SpoutConfig
from kstorm.kafka.mapper import (
    DefaultTopicSelector,
    FieldIndexTopicSelector,
    FieldNameBasedTupleToKafkaMapper,
    FieldNameTopicSelector,
    TopicSelector,
    TupleToKafkaMapper,
)
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.partition_manager import EmitState, KafkaMessageId, PartitionManager
from kstorm.kafka.partitions import calculate_partitions_for_task
from kstorm.kafka.ports import KAFKA, KafkaPorts
from kstorm.kafka.retry import ExponentialBackoffRetryManager, FailedMessageRetryManager
from kstorm.kafka.scheme import (
    KeyValueScheme,
    KeyValueSchemeAsMultiScheme,
    MessageMetadataSchemeAsMultiScheme,
    MultiScheme,
    RawMultiScheme,
    Scheme,
    SchemeAsMultiScheme,
    StringKeyValueScheme,
    StringScheme,
)
from kstorm.kafka.spout import KafkaSpout

__all__ = [
    "EARLIEST_TIME",
    "KAFKA",
    "LATEST_TIME",
    "DefaultTopicSelector",
    "EmitState",
    "ExponentialBackoffRetryManager",
    "FailedMessageRetryManager",
    "FieldIndexTopicSelector",
    "FieldNameBasedTupleToKafkaMapper",
    "FieldNameTopicSelector",
    "KafkaBolt",
    "KafkaConfig",
    "KafkaHosts",
    "KafkaMessageId",
    "KafkaPorts",
    "KafkaSpout",
    "KeyValueScheme",
    "KeyValueSchemeAsMultiScheme",
    "MessageMetadataSchemeAsMultiScheme",
    "MultiScheme",
    "PartitionManager",
    "RawMultiScheme",
    "Scheme",
    "SchemeAsMultiScheme",
    "SpoutConfig",
    "StoredOffset",
    "StringKeyValueScheme",
    "StringScheme",
    "TopicSelector",
    "TupleToKafkaMapper",
    "calculate_partitions_for_task",
]
