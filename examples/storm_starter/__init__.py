"""The topologies of Storm's starter project, as kstorm runs them: from Kafka topics to Kafka topics."""

from kstorm.kafka import (
    FieldNameBasedTupleToKafkaMapper,
    JsonScheme,
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)


def text_spout(topic: str) -> KafkaSpout:
    """Return a spout that emits each message of the topic as text, in the field `str`."""
    return KafkaSpout(_config(topic, SchemeAsMultiScheme(StringScheme())))


def json_spout(topic: str, *fields: str) -> KafkaSpout:
    """Return a spout that emits these members of each JSON object of the topic."""
    return KafkaSpout(_config(topic, SchemeAsMultiScheme(JsonScheme(*fields))))


def sink(topic: str, key: str, message: str) -> KafkaBolt:
    """Return a bolt that writes a record with the values of two fields."""
    mapper = FieldNameBasedTupleToKafkaMapper(key, message)
    return KafkaBolt().with_topic_selector(topic).with_tuple_to_kafka_mapper(mapper)


def _config(topic: str, scheme: SchemeAsMultiScheme) -> SpoutConfig:
    return SpoutConfig(KafkaHosts(), topic=topic, zk_root="/starter", id=topic, scheme=scheme)
