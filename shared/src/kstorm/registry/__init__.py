"""Messages whose schemas are in a schema registry: schemes for `KafkaSpout`, serializers for `KafkaBolt`.

    registry = SchemaRegistry("http://registry:8081")
    SpoutConfig(…, scheme=SchemeAsMultiScheme(AvroScheme(registry, "word", "count")))
    KafkaBolt().with_value_serializer(AvroSerializer(registry, SCHEMA))

They are confluent-kafka's own, which the extra `kstorm[registry]` installs; only the processes that read or write need it.

The rule: **a registry that does not answer costs no message.** What must be asked is asked on a thread; until there is an
answer a message waits where it is (`NotYetError`). Only a registry that answers that it knows no such schema, and bytes that
do not fit their schema, make a message unreadable.
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
