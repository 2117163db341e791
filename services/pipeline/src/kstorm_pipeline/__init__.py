"""The pipeline service: one PySpark job that turns a topology's sink topic into Delta tables.

    sink topic ──▶ bronze ──▶ silver ──▶ your gold tables
                         └──▶ quarantine

Two Structured Streaming queries do the work. `bronze` copies the topic as it is; `refine` reads bronze and writes
everything else. Bronze is the truth: silver, quarantine and gold can always be built anew from it, whatever Kafka has
dropped by then. `pipeline` is what a user declares; `tables` says what each table holds, `refine` why a crash at any point
leaves nothing twice.

It needs none of kstorm's other packages; all it shares with them is the record on the sink topic.
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
