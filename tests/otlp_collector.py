"""A collector of OpenTelemetry, as far as a test needs one: it reads what it gets by OTLP's own messages."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.http_stub import HttpStub


class OtlpCollector(HttpStub):
    """Takes what is sent to it while it is entered."""

    content_type = "application/x-protobuf"

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.spans: list[Any] = []
        """As OTLP has them, in the order in which they came."""
        self.status = 200
        """The answer to all."""
        self.refused = b""
        """A trace's id: a request that has it is refused."""

    def read(self, body: bytes) -> Any:
        return ExportTraceServiceRequest.FromString(body)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Keeps the spans of a request."""
        spans = [
            span for one in body.resource_spans for scope in one.scope_spans for span in scope.spans
        ]
        if self.refused and any(span.trace_id == self.refused for span in spans):
            return 400, b""
        if self.status == 200:
            self.spans += spans
        return self.status, b""

    def messages(self) -> Mapping[tuple[str, int, int], Any]:
        """By coordinates, the span of each message that has come."""
        found = {}
        for span in self.spans:
            said = attributes(span)
            if "kstorm.root" in said and "messaging.kafka.offset" in said:
                partition = int(said["messaging.destination.partition.id"])
                found[
                    said["messaging.destination.name"], partition, said["messaging.kafka.offset"]
                ] = span
        return found


def attributes(span: Any) -> dict[str, Any]:
    """Of a span of OTLP's."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
