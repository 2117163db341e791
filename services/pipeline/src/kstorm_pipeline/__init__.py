"""The pipeline service: one PySpark job that turns a topology's sink topic into Delta tables.

    sink topic ──▶ bronze ──▶ silver ──▶ your gold tables
                         └──▶ quarantine

Two Structured Streaming queries do the work. `bronze` copies the topic unchanged. `refine` reads
bronze and writes everything else. Bronze is the source of truth: silver, quarantine and gold can
always be rebuilt from it, whatever Kafka has deleted by then.

Users declare a `pipeline`. `tables` documents the contents of each table, and `refine` explains why
a crash at any point leaves no duplicates.

The service uses kstorm's modules only for printable output and for TLS to ZooKeeper. The audit
decodes frames with its own code, because it checks kstorm's.
"""

from kstorm_pipeline.avro_records import avro_records
from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.json_records import json_records
from kstorm_pipeline.json_schema_records import json_schema_records
from kstorm_pipeline.pipeline import BatchId, Pipeline
from kstorm_pipeline.protobuf_records import protobuf_records
from kstorm_pipeline.records import any_records, bytes_records, text_records

__all__ = [
    "BatchId",
    "Pipeline",
    "PipelineError",
    "any_records",
    "avro_records",
    "bytes_records",
    "json_records",
    "json_schema_records",
    "protobuf_records",
    "text_records",
]
