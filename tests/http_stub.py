"""The common part of the HTTP stubs: a real server on a free port that responds with the result of
`answer`."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class HttpStub:
    """Listens while its context is open."""

    content_type = "application/json"

    def __init__(self, port: int = 0) -> None:
        self.requests: list[str] = []
        """Method and path of each request."""
        self.headers: list[dict[str, str]] = []
        """The headers of each request."""
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

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def read(self, body: bytes) -> Any:
        """Decode the body of a request. The default is JSON."""
        return json.loads(body)

    def handle(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        with self._lock:
            self.requests.append(f"{method} {path}")
            return self.answer(method, path, body)

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the content.

        Bytes are sent unchanged. A callable gets the handler and sends its own response. Everything
        else is sent as JSON. One thread at a time calls this method.
        """
        raise NotImplementedError
