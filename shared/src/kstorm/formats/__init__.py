"""The formats of a schema registry, for spouts, bolts and the pipeline.

A format is declared here. `kstorm.registry` and `kstorm_pipeline` have a module each that reads it.
"""

from dataclasses import dataclass
from typing import Final

_CONFLUENT: Final = "confluent_kafka.schema_registry"


@dataclass(frozen=True, slots=True)
class RegistryFormat:
    """A format, and the classes of confluent-kafka that read and write it."""

    kind: str
    """The registry's name for it (`schemaType`)."""
    deserializer: tuple[str, str]
    """Module and class."""
    serializer: tuple[str, str]
    schema_form: str | None = None
    """The form in which schemas are requested, unless as text: `format` in the request."""


AVRO: Final = RegistryFormat(
    "AVRO", (f"{_CONFLUENT}.avro", "AvroDeserializer"), (f"{_CONFLUENT}.avro", "AvroSerializer")
)
JSON_SCHEMA: Final = RegistryFormat(
    "JSON",
    (f"{_CONFLUENT}.json_schema", "JSONDeserializer"),
    (f"{_CONFLUENT}.json_schema", "JSONSerializer"),
)
# Its text is useless without a Protobuf compiler, so the serialized descriptor is requested.
PROTOBUF: Final = RegistryFormat(
    "PROTOBUF",
    (f"{_CONFLUENT}.protobuf", "ProtobufDeserializer"),
    (f"{_CONFLUENT}.protobuf", "ProtobufSerializer"),
    schema_form="serialized",
)

UNNAMED: Final = AVRO
"""The format of a schema for which the registry names none."""
FORMATS: Final = {each.kind: each for each in (AVRO, JSON_SCHEMA, PROTOBUF)}
