"""An OpenTelemetry collector for tests. It decodes requests with OTLP's own messages."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.http_stub import HttpStub


class OtlpCollector(HttpStub):
    """Receives spans while its context is open."""

    content_type = "application/x-protobuf"

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.spans: list[Any] = []
        """The received OTLP spans, in order."""
        self.status = 200
        """The status of every answer."""
        self.refused = b""
        """A trace id. Requests that contain it are rejected."""

    def read(self, body: bytes) -> Any:
        return ExportTraceServiceRequest.FromString(body)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Keep the spans of a request."""
        spans = [
            span for one in body.resource_spans for scope in one.scope_spans for span in scope.spans
        ]
        if self.refused and any(span.trace_id == self.refused for span in spans):
            return 400, b""
        if self.status == 200:
            self.spans += spans
        return self.status, b""

    def messages(self) -> Mapping[tuple[str, int, int], Any]:
        """Return the span of each received message, by coordinates."""
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
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
