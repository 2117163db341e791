"""Records as a schema registry's own serializers write them, and their rows in the pipeline."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from kstorm_pipeline import Pipeline
from kstorm_pipeline.row_reading import read_rows
from kstorm_pipeline.settings import Settings
from tests.pipeline.topic import bronze
from tests.registry_stub import RegistryStub

STRATEGY = {"subject.name.strategy.type": "TOPIC"}


class Writer:
    """Writes records of one topic with schemas of the stub."""

    def __init__(self, stub: RegistryStub, topic: str = "orders") -> None:
        self._client = SchemaRegistryClient({"url": stub.url})
        self._context = SerializationContext(topic, MessageField.VALUE)

    def avro(self, schema: str, value: Any) -> bytes:
        return self._bytes(AvroSerializer(self._client, schema, conf=STRATEGY), value)

    def json(self, schema: str, value: Any) -> bytes:
        return self._bytes(JSONSerializer(schema, self._client, conf=STRATEGY), value)

    def protobuf(self, message: Any) -> bytes:
        return self._bytes(
            ProtobufSerializer(
                type(message), self._client, STRATEGY | {"use.deprecated.format": False}
            ),
            message,
        )

    def _bytes(self, serializer: Any, value: Any) -> bytes:
        written = serializer(value, self._context)
        assert isinstance(written, bytes)
        return written


def begun(records: Any, settings: Settings, stub: RegistryStub) -> Pipeline:
    """Return a pipeline of the topic `orders` in a started run."""
    return Pipeline(records=records).begun(
        replace(settings, topic="orders", schema_registry=stub.url)
    )


def read(spark: SparkSession, pipeline: Pipeline, values: Sequence[bytes | None]) -> list[Any]:
    """Return the rows of the values of one batch, in order."""
    return read_rows(pipeline, bronze(spark, values)).orderBy("kafka_offset").collect()
