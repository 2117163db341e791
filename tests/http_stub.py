"""What the stubs of other servers share: a real HTTP server on a free port, which answers what `answer` returns."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class HttpStub:
    """Listens while it is entered."""

    content_type = "application/json"

    def __init__(self, port: int = 0) -> None:
        self.requests: list[str] = []
        """Method and path of each."""
        self.headers: list[dict[str, str]] = []
        """The headers of each."""
        self._lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._reply(*stub.handle("GET", self.path, {}))

            def do_POST(self) -> None:
                self._reply(*stub.handle("POST", self.path, self._body()))

            def do_PATCH(self) -> None:
                self._reply(*stub.handle("PATCH", self.path, self._body()))

            def _body(self) -> Any:
                return stub.read(self.rfile.read(int(self.headers["Content-Length"])))

            def _reply(self, status: int, content: Any) -> None:
                stub.headers.append(dict(self.headers))
                if callable(content):
                    self.close_connection = True
                    content(self)
                    return
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", stub.content_type)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def read(self, body: bytes) -> Any:
        """What a request has in it: JSON, unless it says otherwise."""
        return json.loads(body)

    def handle(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        with self._lock:
            self.requests.append(f"{method} {path}")
            return self.answer(method, path, body)

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """The status and the content: bytes as they are, what can be called with the handler answers by itself, all else is JSON.
        Called by one thread at a time."""
        raise NotImplementedError
