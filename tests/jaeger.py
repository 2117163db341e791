"""Jaeger, a real OpenTelemetry collector with a query API. Go builds it once from its module."""

import json
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import yaml

from kstorm.dev.free_ports import reserve_port
from kstorm.dev.processes import ManagedProcess
from tests.go_program import go_program
from tests.go_server import GoServer

VERSION: Final = "v1.76.0"
"""Version of the module. The program is Jaeger 2."""


class Jaeger(GoServer):
    """A process that keeps traces in memory, as a context manager."""

    def __init__(self, workdir: Path) -> None:
        takes, asked, grpc = (f"127.0.0.1:{reserve_port()}" for _ in range(3))
        self.url = f"http://{takes}"
        """URL for OTLP over HTTP."""
        self._asked = f"http://{asked}"
        config = {
            "service": {
                "extensions": ["jaeger_storage", "jaeger_query"],
                "pipelines": {
                    "traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}
                },
                "telemetry": {"metrics": {"level": "none"}},
            },
            "extensions": {
                "jaeger_query": {
                    "storage": {"traces": "memory"},
                    "http": {"endpoint": asked},
                    "grpc": {"endpoint": grpc},
                },
                "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": 1000}}}},
            },
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": takes}}}},
            "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
        }
        (workdir / "jaeger.yaml").write_text(yaml.safe_dump(config))
        program = go_program("github.com/jaegertracing/jaeger/cmd/jaeger", VERSION)
        process = ManagedProcess(
            "jaeger", [program, "--config", workdir / "jaeger.yaml"], workdir=workdir
        )
        super().__init__(process, f"{self._asked}/api/services")

    def services(self) -> list[str]:
        """Return the services whose spans Jaeger has received."""
        return self._ask("services")["data"] or []

    def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """Return the spans of a trace, as Jaeger's UI gets them. An unknown trace has none."""
        try:
            found = self._ask(f"traces/{trace_id}")["data"]
        except HTTPError as error:
            if error.code == 404:
                return []
            raise
        return [span for trace in found for span in trace["spans"]]

    def find(self, service: str, **tags: str) -> list[str]:
        """Return the ids of a service's traces that have a span with these tags."""
        said = quote(json.dumps(tags))
        found = self._ask(f"traces?service={service}&limit=1000&lookback=2h&tags={said}")["data"]
        return [trace["traceID"] for trace in found]

    def _ask(self, what: str) -> Any:
        with urlopen(f"{self._asked}/api/{what}", timeout=10) as answer:
            return json.load(answer)
