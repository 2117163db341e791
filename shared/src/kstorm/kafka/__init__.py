"""The Kafka source and sink of a topology, `KafkaSpout` and `KafkaBolt`, and their configuration.

A name's module is imported when the name is first used, so that commands do not load all of them.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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
    from kstorm.kafka.message_id import KafkaMessageId
    from kstorm.kafka.offsets import StoredOffset
    from kstorm.kafka.partition_assignment import calculate_partitions_for_task
    from kstorm.kafka.partition_manager import PartitionManager
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

_MODULES: Final = {
    "bolt": ("KafkaBolt",),
    "callback": ("ProducerCallback", "RecordMetadata"),
    "config": ("EARLIEST_TIME", "LATEST_TIME", "KafkaConfig", "ProcessingGuarantee", "SpoutConfig"),
    "coordinator": ("PartitionCoordinator", "StaticCoordinator", "ZkCoordinator"),
    "hosts": ("BrokerHosts", "GlobalPartitionInformation", "KafkaHosts", "StaticHosts", "ZkHosts"),
    "mapper": (
        "DefaultTopicSelector",
        "FieldIndexTopicSelector",
        "FieldNameBasedTupleToKafkaMapper",
        "FieldNameTopicSelector",
        "TopicSelector",
        "TupleToKafkaMapper",
    ),
    "offsets": ("StoredOffset",),
    "partition_assignment": ("calculate_partitions_for_task",),
    "message_id": ("KafkaMessageId",),
    "partition_manager": ("PartitionManager",),
    "ports": ("KAFKA", "Broker", "KafkaPorts", "Partition"),
    "retry": ("ExponentialBackoffRetryManager",),
    "retry_manager": ("FailedMessageRetryManager",),
    "scheme": (
        "JsonScheme",
        "KeyValueScheme",
        "KeyValueSchemeAsMultiScheme",
        "MessageMetadataSchemeAsMultiScheme",
        "MultiScheme",
        "RawMultiScheme",
        "Scheme",
        "SchemeAsMultiScheme",
        "StringKeyValueScheme",
        "StringMultiSchemeWithTopic",
        "StringScheme",
    ),
    "serializer": (
        "BytesSerializer",
        "IntegerSerializer",
        "JsonSerializer",
        "LongSerializer",
        "Serializer",
        "StringSerializer",
    ),
    "spout": ("KafkaSpout",),
}
"""The names of each module."""
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
