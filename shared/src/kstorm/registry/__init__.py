"""Messages whose schemas are in a schema registry: schemes for `KafkaSpout`, serializers for `KafkaBolt`.

    registry = SchemaRegistry("http://registry:8081")
    SpoutConfig(…, scheme=SchemeAsMultiScheme(AvroScheme(registry, "word", "count")))
    KafkaBolt().with_value_serializer(AvroSerializer(registry, SCHEMA))

The serdes are confluent-kafka's own. The extra `kstorm[registry]` installs them; only processes that read or write need
it.

The rule: **a registry that does not answer costs no message.** A thread asks the registry; until there is an answer, a
message waits where it is (`NotYetError`). A message is unreadable only if the registry answers that it knows no such
schema, or if the bytes do not fit their schema.
"""

from kstorm.registry.config import SchemaRegistry
from kstorm.registry.schemes import AvroScheme, JsonSchemaScheme, ProtobufScheme
from kstorm.registry.serializers import AvroSerializer, JsonSchemaSerializer, ProtobufSerializer

__all__ = [
    "AvroScheme",
    "AvroSerializer",
    "JsonSchemaScheme",
    "JsonSchemaSerializer",
    "ProtobufScheme",
    "ProtobufSerializer",
    "SchemaRegistry",
]
