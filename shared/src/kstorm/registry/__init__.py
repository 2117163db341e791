"""Schemes and serializers for messages whose schemas are in a schema registry.

    registry = SchemaRegistry("http://registry:8081")
    SpoutConfig(…, scheme=SchemeAsMultiScheme(AvroScheme(registry, "word", "count")))
    KafkaBolt().with_value_serializer(AvroSerializer(registry, SCHEMA))

The serdes are confluent-kafka's own. The extra `kstorm[registry]` installs them. Only processes
that read or write such messages need this extra.

**No message is lost because a registry does not respond.** A thread queries the registry, and until
it responds, the message waits where it is (`NotYetError`). A message is unreadable only if the
registry responds that the schema does not exist, or if the bytes do not match their schema.
"""

from kstorm.registry.avro import AvroScheme, AvroSerializer
from kstorm.registry.config import SchemaRegistry
from kstorm.registry.json_schema import JsonSchemaScheme, JsonSchemaSerializer
from kstorm.registry.protobuf import ProtobufScheme, ProtobufSerializer

__all__ = [
    "AvroScheme",
    "AvroSerializer",
    "JsonSchemaScheme",
    "JsonSchemaSerializer",
    "ProtobufScheme",
    "ProtobufSerializer",
    "SchemaRegistry",
]
