"""A collector of OpenTelemetry, as far as a test needs one: it reads what it gets by OTLP's own messages."""

from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class OtlpCollector:
    """Takes what is sent to it while it is entered."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[Any] = []
        """As OTLP has them, in the order in which they came."""
        self.paths: list[str] = []
        self.status = 200
        """The answer to all."""
        self.refused = b""
        """A trace's id: a request that has it is refused."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(collector.answer(self.path, body))
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str, body: bytes) -> int:
        """Keeps the spans of a request, and gives its status."""
        self.paths.append(path)
        request = ExportTraceServiceRequest.FromString(body)
        spans = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
        if self.refused and any(span.trace_id == self.refused for span in spans):
            return 400
        if self.status == 200:
            self.spans += spans
        return self.status

    def messages(self) -> Mapping[tuple[str, int, int], Any]:
        """By coordinates, the span of each message that has come."""
        found = {}
        for span in self.spans:
            said = attributes(span)
            if "kstorm.root" in said and "messaging.kafka.offset" in said:
                partition = int(said["messaging.destination.partition.id"])
                found[said["messaging.destination.name"], partition, said["messaging.kafka.offset"]] = span
        return found


def attributes(span: Any) -> dict[str, Any]:
    """Of a span of OTLP's."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
